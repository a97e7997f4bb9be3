"""What is said of HEBI modules that have just started, by their readings alone: needs no library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivers.hebi.feeds import HebiConfiguration
from drivers.hebi.node import judged

NAMES = ("a", "b", "c")


def configured(**change: Any) -> HebiConfiguration:
    return HebiConfiguration(names=NAMES, **{"robot": "salp", **change})


def at_rest(count: int = 380) -> list[np.ndarray]:
    """Of three modules, two seconds."""
    rng = np.random.default_rng(0)
    return [rng.normal([0.01, -0.02, 0.01, 0.1, -0.1, 9.8], [0.003] * 3 + [0.03] * 3, (count, 6)) for _ in NAMES]


def test_modules_that_lie_still_and_are_right_are_said_to_be_with_rate_asked_and_got() -> None:
    assert judged(configured(), at_rest(), 2.0) == (
        [],
        "3 modules answer 190 times a second, asked 200 times; at rest their gyros and gravity are plausible",
    )
    uneven = at_rest()
    uneven[0], uneven[2] = uneven[0][:360], uneven[2][:370]
    assert judged(configured(), uneven, 2.0)[1].startswith("3 modules answer 180 to 190 times a second, asked 200")


@pytest.mark.parametrize(
    ("kept", "columns", "factor", "more", "said"),
    [
        (100, 0, 1.0, 0.0, "module 2 (b): 50 readings a second, asked 200 times: is the network too slow, or this"),
        (0, 0, 1.0, 0.0, "module 2 (b): no reading in 2.0 s"),
        (380, slice(0, 3), 0.0, 0.0, "module 2 (b): its gyro reads the same all the time: its chip hangs; power it"),
        (380, 5, 1.0, -19.6, "-9.80 m/s^2: gravity along -z, where it has to be along z of a link that lies flat"),
    ],
)
def test_a_module_that_cannot_be_right_is_named_alone(
    kept: int, columns: Any, factor: float, more: float, said: str
) -> None:
    values = at_rest()
    values[1][:, columns] = values[1][:, columns] * factor + more
    values[1] = values[1][:kept]
    found, _ = judged(configured(), values, 2.0)
    assert len(found) == 1
    assert said in found[0]


def test_of_what_moves_or_lies_as_it_likes_no_gravity_is_judged_and_imitated_ones_have_no_noise() -> None:
    values = at_rest()
    values[2][:, 2] += np.sin(np.arange(380) / 60.0)
    values[2][:, 5] -= 9.8
    found, told = judged(configured(), values, 2.0)
    assert not found
    assert told.endswith("gyros and gravity are not judged of c, which had to lie still for it")
    values = [rows[:, [0, 1, 2, 5, 3, 4]] for rows in at_rest()]
    assert judged(configured(robot=""), values, 2.0)[0] == []
    assert all("gravity along x" in sentence for sentence in judged(configured(), values, 2.0)[0])
    still = [np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 9.80665], (100, 1)) for _ in NAMES]
    found, told = judged(configured(source="imitation"), still, 2.0)
    assert not found
    assert told.startswith("3 imitated modules answer 50 times a second, asked 200 times")
