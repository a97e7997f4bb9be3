"""Benchmarks of the softrobot."""
