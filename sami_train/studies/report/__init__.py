"""The report of models and runs: an HTML file, with a PNG and a CSV file of each figure. No torch at import."""
