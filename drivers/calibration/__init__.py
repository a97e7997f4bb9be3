"""Calibration of inertial sensors: from a log of six positions and three turns to the file that drivers take."""
