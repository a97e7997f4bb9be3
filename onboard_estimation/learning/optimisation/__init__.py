"""Optimisers of parameters within bounds, through one interface: genetic algorithm, differential evolution, CMA-ES."""
