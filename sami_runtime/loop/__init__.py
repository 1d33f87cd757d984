"""The control loop: ticks, their report, and the way it stops."""
