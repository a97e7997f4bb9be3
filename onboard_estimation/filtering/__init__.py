"""State spaces and filters on them, gating, consistency and smoothing. Knows nothing of robots."""
