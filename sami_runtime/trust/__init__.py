"""Which model files are let in: those of trusted people, and those that did no harm in a process of their own."""
