"""Benchmarks of the salp."""
