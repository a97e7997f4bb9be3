"""Benchmarks of the hopper."""
