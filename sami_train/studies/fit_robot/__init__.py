"""System identification: fits the parameters of a robot's MJCF model to recordings of the robot."""
