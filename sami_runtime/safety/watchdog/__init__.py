"""A process beside the loop that stops the robot when the loop cannot: it shares a beat with it, not a fate."""
