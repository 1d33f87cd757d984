"""A double of LeRobot's interface, as of LeRobot 0.6.1, for tests: it drives nothing, and needs no torch."""
