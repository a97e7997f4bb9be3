"""The LandSalp paper, reproduced: what it had, simulated; its filter and ours on it; its figures and tables."""
