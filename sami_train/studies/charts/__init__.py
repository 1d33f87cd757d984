"""Charts with matplotlib, as panels drawn from table rows: for reports, papers and documented results."""
