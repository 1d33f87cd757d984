"""Unitree's quadruped Go2: walks as commanded, with hidden loads, floors, motors and delays."""
