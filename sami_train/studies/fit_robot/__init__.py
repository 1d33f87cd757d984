"""System identification: the parameters of a robot's MJCF model from recordings of the robot."""
