"""What may be written to a robot, and the gate that every action passes."""
