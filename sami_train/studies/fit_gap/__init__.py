"""A gap profile from recordings of a robot: what arrived when, what answered to which command, what sensors said."""
