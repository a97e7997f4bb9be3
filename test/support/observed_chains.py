"""The paper's chain (Tables II to IV) as observability asks for it, with square waves and random states, for tests."""

from __future__ import annotations

import numpy as np

from thruster_chain_estimation.judging.information import AssumedChain, ObservedChain, packed
from thruster_chain_estimation.model.dynamics import rods

PAPER_ANGLES = (np.pi / 4, 2 * np.pi / 3, -np.pi / 2)


def paper_chain(physical: bool = False, angles: tuple[float, ...] = PAPER_ANGLES) -> ObservedChain:
    """Tables II and IV."""
    return ObservedChain(rods(np.full(len(angles), 0.25), angles), physical=physical)


def paper_prior(count: int = 3, gain: float = 0.0) -> np.ndarray:
    """Table III."""
    return packed(np.full(count, 0.1), 5e-3, 0.1, 1e-4, gain)


def paper_noise(count: int = 3) -> np.ndarray:
    """Table IV, of a step of 10 ms, as a density."""
    return packed(np.full(count, 5e-3), 1e-3, 1e-2, 7e-6, 0.0) / np.sqrt(0.01)


def paper_state(seed: int | None = None, count: int = 3) -> np.ndarray:
    """Table II, straight and at rest; or somehow."""
    rng = np.random.default_rng(seed)
    moving = np.zeros((2, count)) if seed is None else rng.normal(size=(2, count))
    return packed(moving[0], moving[1], 0.5, 2.6e-3)


def drawn_state(count: int, seed: int) -> np.ndarray:
    """Of a chain with unequal links, moving, its thrusters not quite as commanded."""
    rng = np.random.default_rng(seed)
    mass, gain = rng.uniform(0.2, 1.0, count), rng.uniform(0.8, 1.2, count)
    return packed(rng.uniform(-3, 3, count), rng.normal(size=count), mass, mass * 5e-3, gain)


def assumed(
    chain: ObservedChain, noise_density: np.ndarray | None = None, time_constant_s: float = 0.0
) -> AssumedChain:
    """The chain about its design, its thrusters of 1 N, its IMUs at 100 Hz."""
    density = np.zeros(5 * chain.count) if noise_density is None else noise_density
    prior = paper_prior(chain.count)
    return AssumedChain(chain, paper_state(count=chain.count), prior, density, 100.0, 1.0, time_constant_s)


def square_waves(count: int = 3, duration_s: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Time (K,) s at 100 Hz and thrust (K, N): 1 N from 0.2 s on for 0.1 s of every 0.3 s, all thrusters together."""
    step = np.arange(round(100 * duration_s) + 1)
    on = (step >= 20) & ((step - 20) % 30 < 10)
    return 0.01 * step, np.repeat(on[:, None].astype(float), count, axis=1)
