"""The paper on KF1 and its hopping phases, made again."""
