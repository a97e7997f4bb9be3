"""Estimates from the messages on `state` and `state_covariance`: the inverse of `EstimateMessages`."""

from __future__ import annotations

from typing import Any

import numpy as np

from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import Estimate, Matrix, Vector
from onboard_estimation.ros.estimates import coordinate_names
from onboard_estimation.ros.measurements import MessageFault, stamp_ns


class EstimateReader:
    """Puts the mean and the covariance of one stamp together, whichever comes first.

    A message may hold more than is wanted, as that of a filter that also estimates biases: then numbers are taken by
    their names. Of several estimates with one stamp (three gyros at once) the last pair counts.

    Parameters
    ----------
    space
        State space of the estimates; messages with fewer elements are refused.
    """

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._triangle = np.triu_indices(space.dimension)
        self._names = coordinate_names(space)
        rows, columns = self._triangle
        self._pairs = [f"{space.names[i]}:{space.names[j]}" for i, j in zip(rows, columns, strict=True)]
        self._mean: tuple[int, Vector] | None = None
        self._covariance: tuple[int, Matrix] | None = None

    def take_state(self, message: Any) -> Estimate | None:
        """Take a message of `state`; the estimate, once there is its covariance. Raises MessageFault."""
        self._mean = stamp_ns(message), _numbers(message, self._names)
        return self._together()

    def take_covariance(self, message: Any) -> Estimate | None:
        """Take a message of `state_covariance`; the estimate, once there is its mean. Raises MessageFault."""
        rows, columns = self._triangle
        values = _numbers(message, self._pairs)
        covariance = np.zeros((self._space.dimension, self._space.dimension))
        covariance[rows, columns] = covariance[columns, rows] = values
        self._covariance = stamp_ns(message), covariance
        return self._together()

    def _together(self) -> Estimate | None:
        if self._mean is None or self._covariance is None or self._mean[0] != self._covariance[0]:
            return None
        return Estimate(self._mean[0], self._mean[1], self._covariance[1])


def _numbers(message: Any, names: list[str]) -> Vector:
    values = np.array(message.position, dtype=np.float64)
    if len(values) > len(names) and len(message.name) == len(values):
        place = {name: k for k, name in enumerate(message.name)}
        if all(name in place for name in names):
            values = values[[place[name] for name in names]]
    if values.shape != (len(names),) or not np.isfinite(values).all():
        raise MessageFault(f"has {values.size} numbers, or some that are not finite; {len(names)} are needed")
    return values
