"""The machine that training runs on: its cores, files, locks and signals."""
