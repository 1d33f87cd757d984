"""The control loop: its ticks, its reports, and how it stops the robot at the end."""
