"""Is the ground truth a mirror image of the motion? Motion capture with other axes than ROS is easily taken for right.

A robot that turns shows it: mirrored, its turns go the other way. Three things are compared between estimate and truth,
where the motion is large enough to tell:

- turns over short spans, of headings, joint angles and attitudes, in the body's own frame;
- the horizontal path after the best rigid motion, where it bends;
- rising and falling over short spans.

Neither an unknown start nor slow drift hides a mirror image, and a straight or resting robot is accused of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.presentation import quantity
from onboard_estimation.filtering.manifold_kernels import ANGLES, SE2, SO3
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.metrics import rms

Rows = NDArray[np.float64]

MIRRORS = ("y", "z", "yz")
"""Axes to turn round: two left-handed frames, and z down (right-handed, as in NED)."""

_SPANS_S = (0.5, 2.0, 8.0)
_LEAST_TURN_RAD = 0.02
_LEAST_RISE_M = 0.02
_LEAST_PATH_M = 0.05
_STRAIGHT = 0.1
_FEWEST = 10
# A mirror image misses the increments by twice their size, something unrelated by its own size at least.
_INCREMENTS_MISSED = 1.0
_PATH_MISSED = 0.1
_BETTER = 3.0


@dataclass(frozen=True)
class Evidence:
    """How far the truth is from the estimate in one respect, RMS, and how large the true motion is in it.

    Attributes
    ----------
    what
        In words: `turns`, `path`, `height`.
    missed
        Share of the extent from which on the misfit is suspicious.
    """

    what: str
    unit: str
    misfit: float
    extent: float
    missed: float

    @property
    def suspicious(self) -> bool:
        """The estimate does not follow the truth as it was recorded."""
        return self.misfit > self.missed * self.extent


class _Motion(NamedTuple):
    """Estimated and true values (K, .) of one kind, and their difference in the body's frame."""

    minus: Callable[[Rows, Rows], Rows]
    estimate: Rows
    true: Rows


def _turn_of(part: StateSpace, kind: int) -> Callable[[Rows, Rows], Rows]:
    columns = slice(2, 3) if kind == SE2 else slice(None)  # a planar pose is x, y, heading
    return lambda a, b: part.minus(a, b)[:, columns]


class Compared(NamedTuple):
    """Estimates (K, a) at the stamps (K,), and true parts of the state, (K, .) each, NaN where there is no truth."""

    stamps_ns: NDArray[np.int64]
    means: Rows
    true_parts: Mapping[str, Rows]


def refuse_mirrored(space: StateSpace, recorded: Compared, true_parts_of: Callable[[str], Mapping[str, Rows]]) -> None:
    """Raise UserError with both misfits where only a mirror image of the truth fits the estimate.

    A filter that was started from a mirror image tells it all the same: increments hardly depend on the start.

    Parameters
    ----------
    recorded
        Estimates, and the truth as it was recorded.
    true_parts_of
        True parts with axes turned round, see `MIRRORS`, at the instants of the estimates.
    """
    found = evidence(space, recorded)
    if not any(one.suspicious for one in found.values()):
        return
    images = []
    for axes in MIRRORS:
        other = evidence(space, recorded._replace(true_parts=true_parts_of(axes)))
        pairs = [(one, other[what]) for what, one in found.items() if what in other]
        # An image that misses the motion by its whole size fits no better than nothing: the filter has diverged.
        better = [
            (one, image)
            for one, image in pairs
            if one.suspicious and image.misfit < min(one.misfit / _BETTER, image.extent)
        ]
        if better and not any(image.suspicious and image.misfit > _BETTER * one.misfit for one, image in pairs):
            images.append((sum(image.misfit / image.extent for _, image in pairs), axes, better))
    if images:
        _, axes, better = min(images, key=lambda image: image[0])
        what = "is left-handed" if len(axes) == 1 else "has its z axis down"
        inverse = ", or its quaternions are inverse" if all(one.what == "turns" for one, _ in better) else ""
        raise UserError(
            f"the ground truth {what}: {'; '.join(_sentence(one, image) for one, image in better)}; evaluate with "
            f"--mirror-truth {axes}, or convert the recording (or all sensors' axes are turned round{inverse})"
        )


def _sentence(recorded: Evidence, mirrored: Evidence) -> str:
    return (
        f"its {recorded.what} {'miss' if recorded.what.endswith('s') else 'misses'} the estimate by "
        f"{quantity(recorded.misfit, recorded.unit)} RMS as recorded and by "
        f"{quantity(mirrored.misfit, mirrored.unit)} mirrored"
    )


def evidence(space: StateSpace, compared: Compared) -> dict[str, Evidence]:
    """What can be compared, by name; what moves too little is left out."""
    stamps_ns, means, true_parts = compared
    found: dict[str, Evidence] = {}
    turns: list[_Motion] = []
    for name, true in true_parts.items():
        block, estimate = space.block(name), means[:, space.coordinates(name)]
        if block.kind in (ANGLES, SE2, SO3):
            turns.append(_Motion(_turn_of(space.part(name), block.kind), estimate, true))
        if name in ("position", "pose") and block.units[:2] == ("m", "m"):
            if (path := _path(estimate[:, :2], true[:, :2])) is not None:
                found["path"] = path
            if len(block.units) == 3 and block.units[2] == "m":
                rise = [_Motion(np.subtract, estimate[:, 2:], true[:, 2:])]
                if (height := _increments("height", "m", _LEAST_RISE_M, stamps_ns, rise)) is not None:
                    found["height"] = height
    if turns and (turned := _increments("turns", "rad", _LEAST_TURN_RAD, stamps_ns, turns)) is not None:
        found["turns"] = turned
    return found


def _increments(
    what: str,
    unit: str,
    least: float,
    stamps_ns: NDArray[np.int64],
    series: Sequence[_Motion],
) -> Evidence | None:
    """Differences over the first span in which the truth moves enough."""
    for span_s in _SPANS_S:
        span_ns = round(span_s * NANOSECONDS_PER_SECOND)
        end = np.searchsorted(stamps_ns, stamps_ns + span_ns)
        start = np.flatnonzero(end < len(stamps_ns))
        end = end[start]
        # Not over a gap, where the span would be another one.
        near = stamps_ns[end] - stamps_ns[start] <= 2 * span_ns
        start, end = start[near], end[near]
        for one in series:
            known = np.isfinite(one.true[start]).all(axis=1) & np.isfinite(one.true[end]).all(axis=1)
            start, end = start[known], end[known]
        if len(start) < _FEWEST:
            return None
        true_change = np.hstack([one.minus(one.true[end], one.true[start]) for one in series])
        extent = rms(true_change)
        if extent >= least:
            change = np.hstack([one.minus(one.estimate[end], one.estimate[start]) for one in series])
            return Evidence(what, unit, rms(change - true_change), extent, _INCREMENTS_MISSED)
    return None


def _path(estimate: Rows, truth: Rows) -> Evidence | None:
    """Horizontal paths (K, 2) after the best rigid motion; None where the true one is too short or too straight."""
    matched = np.isfinite(estimate).all(axis=1) & np.isfinite(truth).all(axis=1)
    if matched.sum() < _FEWEST:
        return None
    a = estimate[matched] - estimate[matched].mean(axis=0)
    b = truth[matched] - truth[matched].mean(axis=0)
    long, wide = np.linalg.svd(b, compute_uv=False) / np.sqrt(len(b))
    if wide < _STRAIGHT * long or long < _LEAST_PATH_M:
        return None
    dot, cross = np.sum(a * b), np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    angle = np.arctan2(cross, dot)
    turned = a @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    misfit = rms(np.linalg.norm(turned - b, axis=1))
    return Evidence("path", "m", misfit, float(long), _PATH_MISSED)
