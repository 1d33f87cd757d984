"""An adopted policy in MuJoCo: any MJCF robot whose joints have the policy's names, by a velocity command."""
