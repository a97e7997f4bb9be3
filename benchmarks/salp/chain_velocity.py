"""B(r) u of chains of 3 to 100 links: our compiled kernel against NumPy, for one state and for all sigma points.

NumPy in two forms, see `chain_numpy`: our own recursion (the same sums), and eqs. (1) to (5) as printed, summed up and
solved. All of them are called from Python, and the results compared before anything is timed. The growth is the
exponent p of N^p that fits our times between 10 and 100 links best.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.salp.chain_numpy import LinkByLink, PrintedEquations
from benchmarks.timing import case, interleaved, rounded
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain

Array = NDArray[np.float64]

RUNS_UNASKED = ("chain_velocity",)
COUNTS = (3, 10, 30, 100)
GROWTH_COUNTS = (10, 18, 32, 56, 100)
TARGET = 40.0
TOLERANCE = 1e-7  # the dense system of a hundred links is badly conditioned: NumPy is off by 3e-9


def chain_of(count: int) -> Chain:
    """A chain like LandSalp, of any length, every link a little different."""
    rng = np.random.default_rng(count)
    drag = np.column_stack(
        [rng.uniform(40.0, 80.0, count), rng.uniform(20.0, 90.0, count), rng.uniform(0.2, 0.8, count)]
    )
    return Chain.build(
        rng.uniform(0.2, 0.3, count),
        rng.normal(scale=0.01, size=(count, 2)),
        np.deg2rad(rng.choice([-57.0, -130.0], count)),
        drag,
        rng.uniform(0.01, 0.02, count - 1),
    )


def run(quick: bool) -> list[dict[str, Any]]:
    """A case for every length, batch and peer, and the growth."""
    return [*(row for count in COUNTS for row in _against_numpy(count, quick)), *_growth(quick)]


def inputs(count: int) -> tuple[Chain, Array, Array]:
    """A chain, joint angles of its sigma points (2 N + 5, N - 1) and rim speeds."""
    rng = np.random.default_rng(1)
    return chain_of(count), rng.normal(scale=0.2, size=(2 * count + 5, count - 1)), rng.normal(scale=0.1, size=count)


def agreement(count: int) -> float:
    """Largest difference between the three, relative to the largest velocity; RuntimeError where they do not agree."""
    chain, batch, controls = inputs(count)
    ours = kernels.velocities(kernels.completed(chain.links), batch, controls)
    peers = [kind(chain)(angles, controls) for kind in (PrintedEquations, LinkByLink) for angles in (batch, batch[0])]
    largest = max(float(np.abs(peer - (ours if peer.ndim == 2 else ours[0])).max()) for peer in peers)
    largest /= float(np.abs(ours).max())
    if not largest <= TOLERANCE:
        raise RuntimeError(f"B(r) u of {count} links: ours and NumPy's differ by {largest:.2g} of the largest velocity")
    return largest


def _against_numpy(count: int, quick: bool) -> list[dict[str, Any]]:
    difference = agreement(count)
    chain, batch, controls = inputs(count)
    links, printed, recursion = kernels.completed(chain.links), PrintedEquations(chain), LinkByLink(chain)
    rows = []
    for name, angles in (("one state", batch[:1]), (f"{len(batch)} sigma points", batch)):
        theirs = angles[0] if len(angles) == 1 else angles
        candidates = {
            "compiled": lambda angles=angles: kernels.velocities(links, angles, controls),
            "NumPy, equations as printed": lambda theirs=theirs: printed(theirs, controls),
            "NumPy, same sums": lambda theirs=theirs: recursion(theirs, controls),
        }
        samples = interleaved(candidates, 5 if quick else 51, block_s=0.002)
        label = f"{count} links, {name}"
        further = {"largest_relative_difference": difference}
        rows.append(case(label, samples, "compiled", "NumPy, equations as printed", **further))
        rows.append(case(label, samples, "compiled", "NumPy, same sums", TARGET, **further))
    return rows


def _growth(quick: bool) -> list[dict[str, Any]]:
    single, batch = {}, {}
    for count in GROWTH_COUNTS:
        chain, angles, controls = inputs(count)
        links = kernels.completed(chain.links)
        single[str(count)] = lambda links=links, r=angles[:1], u=controls: kernels.velocities(links, r, u)
        batch[str(count)] = lambda links=links, r=angles, u=controls: kernels.velocities(links, r, u)
    rows = []
    for name, candidates in (("one state", single), ("2 N + 5 sigma points", batch)):
        samples = interleaved(candidates, 5 if quick else 31, block_s=0.002)
        medians = [float(np.median(samples[str(count)])) for count in GROWTH_COUNTS]
        exponent = float(np.polyfit(np.log(GROWTH_COUNTS), np.log(medians), 1)[0])
        rows.append(
            {
                "case": f"growth of the time with N, {name}",
                "figure": f"N^{exponent:.2f}",
                "exponent": rounded(exponent),
                "links": list(GROWTH_COUNTS),
                "median_s": [rounded(value) for value in medians],
                "target": "at most N^2",
                "met": exponent <= 2.0,
            }
        )
    return rows
