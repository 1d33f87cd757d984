"""Recordings as tables: for spreadsheets, data frames and LeRobot."""
