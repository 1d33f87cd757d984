"""Recordings: their format, who writes and who reads them, and replays."""
