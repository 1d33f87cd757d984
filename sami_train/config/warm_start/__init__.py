"""What a run is given to begin with: weights of another one, and recordings."""
