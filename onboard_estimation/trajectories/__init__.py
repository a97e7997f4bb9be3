"""Estimates as files of trajectories: of others, read; ours, written."""
