"""Learned residuals: Gaussian processes, exact and of constant cost, what their data covers, and files of them."""
