"""Recordings of every format and ROS version: found, read with suspicion, decoded, written."""
