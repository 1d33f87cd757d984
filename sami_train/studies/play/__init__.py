"""Plays an adopted policy in MuJoCo, by a velocity command, on any MJCF robot whose joints have the policy's names."""
