"""Episodes: how training plays them, collects them in processes, stores them in a buffer, and samples from it."""
