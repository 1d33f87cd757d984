"""The report of models and runs: one HTML file, with a PNG and a CSV of each figure beside it. No torch at import."""
