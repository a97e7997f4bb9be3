"""Benchmarks of recorded robots of others."""
