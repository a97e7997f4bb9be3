"""Calibration of inertial sensors: from a log of six positions and three turns to the file that drivers take."""

from drivers.calibration.parameter_file import ImuCalibration as ImuCalibration
from drivers.calibration.parameter_file import load_calibration as load_calibration
