"""Benchmarks of the thruster chain."""
