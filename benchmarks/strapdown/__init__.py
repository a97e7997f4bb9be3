"""Benchmarks of the strapdown."""
