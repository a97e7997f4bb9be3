"""Observability of a thruster chain as it is told live, once a second: a few named numbers, and a forecast in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.assumed_chain import AssumedChain, from_published
from salp_estimation.thruster_chain.lie_derivatives import observability, theorem_conditions


class ObservedNow(NamedTuple):
    """Names and values of the message `observability`, and sentences beside it.

    Attributes
    ----------
    names, values
        `normal_n.<link>` and `net_n.<link>`: the two sides of Theorem 4, N; `turning.<link>`: its row of F; `rank`, of
        `states`; `smallest`: smallest scaled singular value of what can be observed.
    hidden
        What no output tells at this instant; empty: nothing.
    forecast
        Which push would tell most.
    """

    names: tuple[str, ...]
    values: Vector
    hidden: str
    forecast: str


def observed_now(
    assumed: AssumedChain, link_names: tuple[str, ...], mean: Vector, covariance: Matrix, thrust_n: Vector
) -> ObservedNow:
    """From what an estimator tells (4N + 4: mean and covariance) and the thrust (N,) that is commanded."""
    state, whole = from_published(assumed, mean, covariance)
    thrust = assumed.started(thrust_n)
    conditions = theorem_conditions(assumed.chain, state, thrust)
    seen = observability(assumed.chain, state, thrust, assumed.prior_stddev, letters=1)
    best = assumed.forecast(state, whole)
    blocks = {"normal_n": conditions.normal_n, "net_n": conditions.net_n, "turning": conditions.turning}
    names = tuple(f"{block}.{link}" for block in blocks for link in link_names)
    values = np.concatenate(
        [*(block[0] for block in blocks.values()), [seen.rank[0], len(seen.states), seen.smallest_observable[0]]]
    )
    hidden = ", ".join(seen.unobservable[0])
    return ObservedNow((*names, "rank", "states", "smallest"), values, hidden, str(best))
