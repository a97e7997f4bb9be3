"""A clamped beam that is let go: how it rings down, a rod that foretells it, and what recordings of markers say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import least_squares
from scipy.signal import find_peaks

from benchmarks.measuring import Array, Row, recordings, row
from benchmarks.softrobot.real_arm import (
    TipMotion,
    deflection_row,
    law_rows,
    read_pressure_step,
    read_tip_motion,
)

CREEP_SINCE_S = 0.2
"""What rings also creeps, as the logarithm of its age: the first time counts as so old."""
LEAST_SHARE = 0.06
"""Of the largest swing: smaller ones are no longer read one by one."""


class Reading(NamedTuple):
    """One way's answer."""

    frequency_hz: float
    damping_ratio: float


class Measured(NamedTuple):
    """A figure, and half of how far the ways and signals that give it are apart."""

    value: float
    uncertainty: float


def fit_decaying_sinusoid(times: Array, seen: Array, near_hz: float | None = None) -> tuple[Reading, Array]:
    """Least squares with a background that creeps; and what is left of values (K,) without the background.

    The frequency is looked for from two swings in the whole time up to what the stamps can tell, or `near_hz`.
    """
    ages = times - times[0]
    background = np.column_stack([np.ones_like(ages), np.log(ages + CREEP_SINCE_S)])

    def parts(rates: Array) -> tuple[Array, Array]:
        decay, frequency = np.exp(rates)
        ring = np.exp(-decay * ages) * np.exp(2j * np.pi * frequency * ages)
        columns = np.column_stack([background, ring.real, ring.imag])
        return columns, np.linalg.lstsq(columns, seen, rcond=None)[0]

    def misfits(rates: Array) -> Array:
        columns, weights = parts(rates)
        return np.asarray(columns @ weights - seen)

    fastest_hz = 0.4 / float(np.median(np.diff(ages)))
    starts = np.geomspace(2.0 / ages[-1], fastest_hz, 24) if near_hz is None else np.array([near_hz])
    bounds = (np.log([0.05 / ages[-1], 0.5 / ages[-1]]), np.log([40.0, 1.2 * fastest_hz]))
    fits = [least_squares(misfits, np.log([2.0, hz]), bounds=bounds) for hz in starts]
    best = min(fits, key=lambda one: float(one.cost))
    decay, frequency = np.exp(best.x).tolist()
    columns, weights = parts(best.x)
    return _reading(frequency, decay), np.asarray(seen - columns[:, :2] @ weights[:2])


def _reading(frequency_hz: float, decay: float) -> Reading:
    """The damping ratio belongs to the undamped angular frequency, what is seen is the damped one."""
    return Reading(frequency_hz, decay / math.hypot(decay, 2.0 * math.pi * frequency_hz))


def ring_down(times: Array, seen: Array) -> list[Reading]:
    """What the whole, its halves, and its swings say (frequency from where these cross zero, damping from sizes)."""
    whole, ringing = fit_decaying_sinusoid(times, seen)
    step_s = float(np.median(np.diff(times)))
    swings, _ = find_peaks(np.abs(ringing), distance=max(1, int(0.3 / whole.frequency_hz / step_s)))
    sizes = np.abs(ringing[swings])
    small = np.flatnonzero(sizes < LEAST_SHARE * sizes.max())
    swings = swings[: small[0]] if len(small) else swings
    same_side = np.flatnonzero(np.diff(np.sign(ringing[swings])) == 0.0)
    swings = swings[: same_side[0] + 1] if len(same_side) else swings
    middle = swings[len(swings) // 2]
    halves = [
        fit_decaying_sinusoid(times[part], ringing[part], whole.frequency_hz)[0]
        for part in (slice(0, middle), slice(middle, swings[-1] + 1))
    ]
    crossings = [_crossing(times[a : b + 1], ringing[a : b + 1]) for a, b in itertools.pairwise(swings.tolist())]
    frequency_hz = 0.5 / float(np.polyfit(np.arange(len(crossings)), crossings, 1)[0])
    decay = -float(np.polyfit(times[swings], np.log(np.abs(ringing[swings])), 1)[0])
    return [whole, *halves, _reading(frequency_hz, decay)]


def _crossing(times: Array, values: Array) -> float:
    """When values change sign; noise may make them do so several times: in the middle of these."""
    before = np.flatnonzero(np.sign(values[:-1]) != np.sign(values[1:]))
    shares = values[before] / (values[before] - values[before + 1])
    return float(np.mean(times[before] + shares * (times[before + 1] - times[before])))


def agreed(values: Sequence[float]) -> Measured:
    """Their median, and half of their range."""
    return Measured(float(np.median(values)), 0.5 * float(np.ptp(values)))


GRAVITY_M_S2 = 9.81
SHEAR_CORRECTION = 5.0 / 6.0
"""Of a rectangular cross-section."""
_NEWTON_STEPS = 60
_START_PA, _BOUNDS_PA = 3e5, (5e4, 5e6)  # rubbers


@dataclass(frozen=True)
class Beam:
    """A straight beam of square cross-section, clamped at one end with its axis horizontal.

    Rubber keeps its volume: the shear modulus is a third of Young's modulus.
    """

    length_m: float
    side_m: float
    density_kg_m3: float
    load_height_m: float = 0.0
    """Of where the load hangs at the beam's end, above the middle of the cross-section."""
    shears: bool = True
    """False: the beam only bends, as in Euler's elastica; for comparison."""

    @property
    def area_m2(self) -> float:
        """Of the cross-section."""
        return self.side_m**2

    @property
    def second_moment_m4(self) -> float:
        """Of the cross-section."""
        return self.side_m**4 / 12.0


class BeamMotion(NamedTuple):
    """Rest and lowest mode."""

    sag_m: float
    turn_rad: float
    """Of the end's cross-section."""
    frequency_hz: float


def rod(beam: Beam, youngs_modulus_pa: float, load_kg: float, elements: int = 40) -> BeamMotion:
    """A plane rod that bends, shears and sags by any amount.

    Its elements have equal lengths h; each is turned by phi_i (down is positive) and sheared by gamma_i.

    The end of an element is h (cos phi - gamma sin phi, sin phi + gamma cos phi) from its start. Neighbours are joined
    by springs E I / h, the clamp is half an element away. Weight acts in the middles; the load is a point.
    """
    n, h = elements, beam.length_m / elements
    bending = youngs_modulus_pa * beam.second_moment_m4 / h
    # A thousand times too stiff is as good as rigid, and still well conditioned.
    rigidity = (1.0 if beam.shears else 1e3) * SHEAR_CORRECTION * youngs_modulus_pa / 3.0 * beam.area_m2 * h
    springs = bending * (2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    springs[0, 0], springs[-1, -1] = 3.0 * bending, bending
    mass = beam.density_kg_m3 * beam.area_m2 * h
    # What hangs on the end of each element: those beyond it, half of itself, the load.
    weights = GRAVITY_M_S2 * h * (mass * (n - np.arange(n) - 0.5) + load_kg)
    lifted = GRAVITY_M_S2 * load_kg * beam.load_height_m
    phi, gamma = np.zeros(n), np.zeros(n)
    for _ in range(_NEWTON_STEPS):
        sines, cosines = np.sin(phi), np.cos(phi)
        by_turn = springs @ phi - weights * (cosines - gamma * sines)
        by_turn[-1] -= lifted * sines[-1]
        by_shear = rigidity * gamma - weights * cosines
        turned = springs + np.diag(weights * (sines + gamma * cosines))
        turned[-1, -1] -= lifted * cosines[-1]
        stiffness = np.block([[turned, np.diag(weights * sines)], [np.diag(weights * sines), rigidity * np.eye(n)]])
        change = np.linalg.solve(stiffness, -np.concatenate([by_turn, by_shear]))
        phi, gamma = phi + change[:n], gamma + change[n:]
        if np.abs(change).max() < 1e-11:
            break
    else:
        raise ArithmeticError(
            f"a beam of {youngs_modulus_pa:.3g} Pa finds no rest under {load_kg:g} kg; it is too soft"
        )
    sines, cosines = np.sin(phi), np.cos(phi)
    forward = np.concatenate([-sines - gamma * cosines, -sines])
    downward = np.concatenate([cosines - gamma * sines, cosines])
    reach = h * np.hstack([np.tril(np.ones((n, n)), -1) + 0.5 * np.eye(n)] * 2)
    masses = mass * ((reach * forward).T @ (reach * forward) + (reach * downward).T @ (reach * downward))
    masses[:n, :n] += beam.density_kg_m3 * beam.second_moment_m4 * h * np.eye(n)
    end_forward, end_downward = h * forward, h * downward
    end_forward[n - 1] += beam.load_height_m * cosines[-1]
    end_downward[n - 1] += beam.load_height_m * sines[-1]
    masses += load_kg * (np.outer(end_forward, end_forward) + np.outer(end_downward, end_downward))
    squared = float(eigh(stiffness, masses, eigvals_only=True, subset_by_index=(0, 0))[0])
    return BeamMotion(
        sag_m=float(h * (sines + gamma * cosines).sum()),
        turn_rad=float(1.5 * phi[-1] - 0.5 * phi[-2]),
        frequency_hz=float(np.sqrt(max(squared, 0.0)) / (2.0 * np.pi)),
    )


def fit_modulus(beam: Beam, measured: Mapping[float, Measured], figure: str) -> Measured:
    """Young's modulus (Pa) whose beam has a figure of BeamMotion as measured at each load (kg).

    The uncertainty is one standard deviation by those of the figures, and larger where these do not fit together.
    """

    def misfits(logs: Array) -> Array:
        motions = [rod(beam, float(np.exp(logs[0])), load_kg) for load_kg in measured]
        rows = zip(motions, measured.values(), strict=True)
        return np.array([(getattr(motion, figure) - one.value) / one.uncertainty for motion, one in rows])

    found = least_squares(
        misfits, np.log([_START_PA]), bounds=(np.log(_BOUNDS_PA[0]), np.log(_BOUNDS_PA[1])), diff_step=1e-5
    )
    spread = max(1.0, 2.0 * float(found.cost) / max(1, len(measured) - 1))
    modulus = float(np.exp(found.x[0]))
    return Measured(modulus, modulus * float(np.sqrt(spread / np.sum(found.jac**2))))


SETTLED_S = 1.0
"""At the end of a recording, which the sag is averaged over."""
LET_GO_S, RUNG_S = 0.12, 2.2
"""Between these ages the ring-down is read: before, the hand may still touch; later, it is over."""


class Release(NamedTuple):
    """What one recording says.

    Attributes
    ----------
    load_kg
        At the end of the beam.
    sag_m
        Of the markers' middle, downwards, from where it was held; uncertain by the scatter of where it is held.
    turn_rad
        Of the markers about the horizontal axis, final, from the attitude that was held; no uncertainty is known.
    frequency_hz, damping_ratio
        From the height and from the turn, by all ways of `ring_down`.
    """

    load_kg: float
    sag_m: Measured
    turn_rad: float
    frequency_hz: Measured
    damping_ratio: Measured


def read_releases(folder: Path) -> list[Release]:
    """The recordings of `LOADS`, lightest first.

    Down is that axis of the capture along which the tip sags most.
    """
    motions = {load_kg: read_tip_motion(folder / name) for load_kg, name in LOADS.items()}
    last = motions[max(motions)].displacements_m[-1]
    axis = int(np.argmax(np.abs(last)))
    held_stddev_m = float(np.std([motion.resting_offset_m[axis] for motion in motions.values()], ddof=1))
    down = axis, float(np.sign(last[axis])), held_stddev_m
    return [_release(load_kg, one, *down) for load_kg, one in motions.items()]


def _release(load_kg: float, motion: TipMotion, axis: int, sign: float, held_stddev_m: float) -> Release:
    heights = sign * motion.displacements_m[:, axis]
    horizontal = int(np.argmax(np.abs(motion.turns_rad[-1])))
    turns = motion.turns_rad[:, horizontal] * np.sign(motion.turns_rad[-1, horizontal])
    settled = motion.between(motion.times_s[-1] - SETTLED_S, motion.times_s[-1])
    ringing = motion.between(LET_GO_S, RUNG_S)
    every = [one for signal in (heights, turns) for one in ring_down(motion.times_s[ringing], signal[ringing])]
    frequency_hz, damping_ratio = map(agreed, zip(*every, strict=True))
    sag_m = Measured(float(heights[settled].mean()), held_stddev_m)
    return Release(load_kg, sag_m, float(turns[settled].mean()), frequency_hz, damping_ratio)


# What is said of it.

LOADS = {0.0: "beam_gravity_V2_a.c3d", 0.052: "beam_load52_V2_a.c3d", 0.101: "beam_load101_V2_a.c3d"}
BEAM = Beam(length_m=0.1, side_m=0.03, density_kg_m3=1085.0)
UNSURE_BEAMS = {
    "density": [replace(BEAM, density_kg_m3=density) for density in (1020.0, 1150.0)],
    "place of the load": [replace(BEAM, load_height_m=height) for height in (-0.5 * BEAM.side_m, 0.5 * BEAM.side_m)],
}
"""What is not known of the beam, at its bounds.

Of the silicone nothing is written down: makers' data sheets of those that cure by platinum say 1.02 to 1.15 g/cm^3. Of
the load the README of the recordings says `at its tip`: anywhere on the end's face, its middle on average.
"""
SHOWN = {"sag_m": ("sag", "mm", 1e3, 2), "frequency_hz": ("frequency", "Hz", 1.0, 3)}


def foretold(releases: Sequence[Release], release: Release, figure: str) -> Measured:
    """A figure by the modulus that fits this figure of the other loads.

    Unsure by the modulus, and by `UNSURE_BEAMS`, refitted.
    """
    others = {one.load_kg: getattr(one, figure) for one in releases if one is not release}

    def value(beam: Beam, modulus_pa: float) -> float:
        return float(getattr(rod(beam, modulus_pa, release.load_kg), figure))

    modulus = fit_modulus(BEAM, others, figure)
    expected = value(BEAM, modulus.value)
    changes = [value(BEAM, modulus.value + modulus.uncertainty) - expected]
    for beams in UNSURE_BEAMS.values():
        bounds = [value(beam, fit_modulus(beam, others, figure).value) for beam in beams]
        changes.append(max(abs(bound - expected) for bound in bounds))
    return Measured(expected, float(np.linalg.norm(changes)))


def apart(one: Measured, other: Measured) -> float:
    """In uncertainties of both."""
    return abs(one.value - other.value) / float(np.hypot(one.uncertainty, other.uncertainty))


def beam_rows(releases: Sequence[Release]) -> list[Row]:
    """The rod against what was measured, within both uncertainties."""
    rows = []
    for release in releases:
        for figure, (word, unit, scale, digits) in SHOWN.items():
            measured, load = getattr(release, figure), f"{1e3 * release.load_kg:g} g"
            found = foretold(releases, release, figure)
            off = apart(found, measured)
            text = f"{scale * found.value:.{digits}f} {unit}; measured {_shown(measured, scale, digits)}: "
            text += f"{found.value / measured.value - 1.0:+.1%}, {off:.2f} uncertainties"
            rows.append(row(f"beam, {load} left out, {word}, rod", text, "<= 1 uncertainty of both", off <= 1.0))
    return rows


def material_rows(releases: Sequence[Release]) -> list[Row]:
    """Young's modulus by each figure, with shear and without."""
    rows = []
    for name, beam in (("rod", BEAM), ("rod that does not shear", replace(BEAM, shears=False))):
        for figure, word in (("sag_m", "sags"), ("frequency_hz", "frequencies")):
            found = fit_modulus(beam, {one.load_kg: getattr(one, figure) for one in releases}, figure)
            rows.append(row(f"beam, Young's modulus by all {word}, {name}", f"{_shown(found, 1e-3, 0)} kPa"))
    return rows


def _shown(one: Measured, scale: float, digits: int) -> str:
    return f"{scale * one.value:.{digits}f} +- {scale * one.uncertainty:.{digits}f}"


def soft_arm(quick: bool) -> list[Row]:
    """A real soft arm at pressures left out, and a real beam under loads left out: recorded markers, nothing simulated.

    Needs the recordings; nothing here is timed. The other figures of `docs/softrobot.md` are of d1204b7.
    """
    folder = recordings("soft_arm")
    steps = sorted(map(read_pressure_step, folder.glob("*mbar*.c3d")), key=lambda step: step.pressure_mbar)
    releases = read_releases(folder)
    return [
        *(deflection_row(step, steps) for step in steps),
        *beam_rows(releases),
        *material_rows(releases),
        *law_rows(steps),
    ]
