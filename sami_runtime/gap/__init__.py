"""The gap between simulation and reality: what it is, and what it does to observations and actions."""
