"""Devices that are not there, at the other end of a real wire."""
