"""The model file: what it says of itself, what is checked before it runs, and what it carries along."""
