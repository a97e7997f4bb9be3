"""Robots and file formats of recordings that other people published, by what onboard_estimation offers to all."""
