"""What a picture is made of, wherever it comes from: estimates over time with the truth at the same instants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.drawn import planar_position
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.robots import Robot

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Subject:
    """A robot that is shown.

    Attributes
    ----------
    namespace
        Of its topics, e.g. `/salp`: its name in the picture.
    """

    namespace: str
    robot: Robot
    configuration: Any
    space: StateSpace

    def true_parts(self, bodies: Mapping[str, Rows]) -> dict[str, Rows]:
        """Parts of the true state (K, d) of poses (K, 7) or positions (K, 3); NaN where not all bodies are seen."""
        wanted = self.robot.truth_specification(self.configuration).bodies
        if not wanted or any(body not in bodies for body in wanted):
            return {}
        known = np.all([np.isfinite(bodies[body]).all(axis=1) for body in wanted], axis=0)
        if not known.any():
            return {}
        parts = {}
        seen = {body: bodies[body][known] for body in wanted}
        for name, values in self.robot.true_parts(self.configuration, seen).items():
            parts[name] = np.full((len(known), values.shape[1]), np.nan)
            parts[name][known] = values
        return parts


@dataclass(frozen=True, eq=False)
class Moment:
    """An estimate and the truth of its instant.

    Attributes
    ----------
    bodies
        Poses (7,) or positions (3,) of the bodies that motion capture saw.
    truth
        Blocks of the true state by name; None where not all bodies were seen.
    """

    estimate: Estimate
    bodies: Mapping[str, Vector] = field(default_factory=dict)
    truth: Mapping[str, Vector] | None = None


@dataclass(frozen=True, eq=False)
class ShownRun:
    """K instants of one robot.

    Attributes
    ----------
    stamps_ns, means, covariances
        (K,), (K, a), (K, n, n).
    bodies, truth
        As in `Moment`, a row per instant; NaN where nothing was seen.
    notes
        Sentences for the reader, Markdown.
    """

    subject: Subject
    stamps_ns: NDArray[np.int64]
    means: Rows
    covariances: Rows
    bodies: Mapping[str, Rows] = field(default_factory=dict)
    truth: Mapping[str, Rows] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def time_s(self) -> Vector:
        """(K,) seconds since the first estimate."""
        return (self.stamps_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND

    def at(self, index: int) -> Moment:
        """The instant of that number."""
        bodies = {name: rows[index] for name, rows in self.bodies.items() if np.isfinite(rows[index]).all()}
        truth = {name: rows[index] for name, rows in self.truth.items() if np.isfinite(rows[index]).all()}
        estimate = Estimate(int(self.stamps_ns[index]), self.means[index], self.covariances[index])
        return Moment(estimate, bodies, truth or None)

    def ways(self, stop: int | None = None) -> tuple[Rows, Rows]:
        """Estimated and true positions (k, 2) up to an instant; empty where the state has none."""
        columns = planar_position(self.subject.space)
        if columns is None:
            return np.zeros((0, 2)), np.zeros((0, 2))
        true = next((self.truth[name] for name in ("pose", "position") if name in self.truth), np.zeros((0, 2)))
        true = true[:stop, :2]
        return self.means[:stop, columns], true[np.isfinite(true).all(axis=1)]

    def errors(self) -> dict[str, Rows]:
        """Estimate minus truth (K, d) of each part that has a truth, in its tangent space; NaN where there is none."""
        out = {}
        for name, true in self.truth.items():
            part = self.subject.space.part(name)
            known = np.isfinite(true).all(axis=1)
            error = np.full((len(true), part.dimension), np.nan)
            if known.any():
                error[known] = part.minus(self.means[known][:, self.subject.space.coordinates(name)], true[known])
            out[name] = error
        return out
