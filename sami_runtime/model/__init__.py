"""The model file: its contract, the checks before it runs, and the references and golden steps inside it."""
