"""Unitree's quadruped Go2 follows velocity commands, with hidden payload, friction, motor faults and delay."""
