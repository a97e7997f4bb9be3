"""Algorithm 1 of the soft robot's paper by its letter, in NumPy, with statistics as the paper keeps them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Oracle:
    """Particles x (N, n), k (N,), w (N,), theta (N, 2); s1 (N, M), s2 (N,), r1 (N, M, M), r2 without the prior."""

    f_nom: Any
    h_nom: Any
    centre: Array
    half_widths: Array
    sigma_omega: Array
    sigma_e: Array
    constant: float
    least: float
    psi: float
    nu: float
    theta: Array
    zeta: Array
    least_theta: Array
    x: Array
    k: Array
    w: Array
    count: int = 40

    def __post_init__(self) -> None:
        indices = np.array(sorted(itertools.product(range(1, 9), repeat=3), key=lambda j: (sum(i * i for i in j), j)))
        self.j = indices[: self.count]
        self.varrho = (np.pi**2 * self.j**2 / 4.0).sum(axis=1)
        n, m = len(self.x), self.count
        self.s1, self.s2, self.r1, self.r2 = np.zeros((n, m)), np.zeros(n), np.zeros((n, m, m)), 0.0

    def phi(self, x: Array) -> Array:
        """Eigenfunctions on [-1, 1]^3."""
        q = (x[:, :3] - self.centre) / self.half_widths
        return np.sin(np.pi * self.j * (q[:, None, :] + 1.0) / 2.0).prod(axis=2)

    def posterior(self, i: int) -> tuple[Array, Array, float, float]:
        """(14) of a particle, from statistics with its own prior (16); V by (8)."""
        sigma_f_squared, length = self.theta[i]
        v = sigma_f_squared * (2.0 * np.pi * length**2) ** 1.5 * np.exp(-(length**2) * self.varrho / 2.0)
        r1 = np.diag(1.0 / v) + self.r1[i]
        root = np.diag(np.sqrt(v))  # of r1^-1 = root (root r1 root)^-1 root, which rounding leaves alone
        inverse = root @ np.linalg.inv(root @ r1 @ root) @ root
        m = inverse @ self.s1[i]
        return m, inverse, self.psi + self.s2[i] - self.s1[i] @ m, self.nu + self.r2

    def density(self, y: Array, x: Array, k: Array) -> Array:
        """N(y | h_nom, Sigma_e)."""
        errors = y - self.h_nom(x, k)
        exponents = -0.5 * np.einsum("ij,jk,ik->i", errors, np.linalg.inv(self.sigma_e), errors)
        return np.exp(exponents) / np.sqrt(np.linalg.det(2.0 * np.pi * self.sigma_e))

    def step(self, y: Array, step_s: float, rng: np.random.Generator, walking: bool) -> None:
        """Lines 2 to 16, random numbers in their order there."""
        n = len(self.x)
        ahead = self.f_nom(self.x, self.k, step_s)  # 3
        phi = self.phi(ahead)
        mean = np.array([self.posterior(i)[0] @ phi[i] for i in range(n)])
        first = self.density(y, ahead, np.maximum(self.constant + mean, self.least))
        weights = self.w * first  # 5
        weights /= weights.sum()  # 6
        a = np.searchsorted(np.cumsum(weights), (rng.random() + np.arange(n)) / n, side="right")  # 7
        x = ahead[a] + np.sqrt(step_s) * self.sigma_omega * rng.standard_normal(ahead.shape)  # 12
        self.s1, self.s2, self.r1, self.theta = self.s1[a], self.s2[a], self.r1[a], self.theta[a]  # 15
        if walking:  # 9, 10
            stepped = self.theta + np.sqrt(step_s) * self.zeta * rng.standard_normal((n, 2))
            self.theta = self.least_theta + np.abs(stepped - self.least_theta)
        phi, t = self.phi(x), rng.standard_t(self.nu + self.r2, (n, 1))[:, 0]
        for i in range(n):  # 13, by (22) and (23)
            m, v, psi, rho = self.posterior(i)
            xi = 1.0 / (phi[i] @ v @ phi[i])
            k = m @ phi[i] + np.sqrt((xi + 1.0) / (xi * rho) * psi) * t[i]
            self.k[i] = max(self.constant + k, self.least)
        deviation = self.k - self.constant
        self.s1 = self.s1 + phi * deviation[:, None]  # 14, by (15)
        self.s2 = self.s2 + deviation**2
        self.r1 = self.r1 + phi[:, :, None] * phi[:, None, :]
        self.r2 += 1.0
        self.x = x
        self.w = self.density(y, x, self.k) / first[a]  # 16, by (19)
        self.w /= self.w.sum()
