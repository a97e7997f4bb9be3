"""Benchmarks of drivers, ground truth and their fuzzers."""
