"""Plays an adopted policy in MuJoCo with velocity commands, on any MJCF robot whose joints have the policy's names."""
