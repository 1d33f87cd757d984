"""The SO-101, an arm of STS3215 servos: pushes a cube of hidden mass and friction with joints of hidden play."""
