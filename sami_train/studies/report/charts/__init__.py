"""Figures of the report, as Vega-Lite: what a page shows and a PNG is made of."""
