"""Benchmarks of bags, evaluation, live nodes and campaigns."""
