"""State spaces and filters on them, gating and consistency. Knows nothing of robots."""
