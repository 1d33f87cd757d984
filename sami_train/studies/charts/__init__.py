"""Drawing: charts of panels over rows, with matplotlib, for pages, papers and pictures beside results."""
