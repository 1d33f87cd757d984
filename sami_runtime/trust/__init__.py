"""Which model files are let in: those of people who are trusted, and those that do no harm in a process of their own."""
