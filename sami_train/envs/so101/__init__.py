"""The SO-101, an arm with STS3215 servos and hidden joint play, pushes a cube of hidden mass and friction."""
