"""Vicon: poses of subjects and their segments from a DataStream server."""
