"""Episodes: played, collected in processes, kept, and drawn from."""
