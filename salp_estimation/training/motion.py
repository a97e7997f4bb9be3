"""Motion of the chain from motion capture: states, body velocities and joint rates on a regular grid.

As the paper does it (section V-A, after its reference [17]): groupwise finite differences and a zero-phase low-pass.
Groupwise: the velocity of the base is the SE(2) logarithm of the motion from one instant to another, divided by the
time between them, so it is a body velocity and does not depend on the frame of the motion capture.

    motion = motion_from_tracks(configuration.chain, recording.tracks)
    used = motion.valid
    motion.states[used], motion.rates[used]              # (K, N + 2) each

Frames with flipped or swapped markers are left out and counted (`motion.left_out`). Nothing is made up for them: gaps
longer than a fifth of the low-pass's period split the motion into stretches, which are filtered each by itself, and
the edges of every stretch are not valid.

A solver of rigid bodies that confuses markers gives a pose that jumps by centimetres or many degrees, stays there for
some frames and jumps back: such frames are found by `longest_chain`, single ones that stray less than a jump by a
running median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly
from scipy.ndimage import median_filter
from scipy.signal import butter, sosfiltfilt

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.soundness.stretches import longest_chain, runs
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import ChainConfiguration

Stamps = NDArray[np.int64]
Rows = NDArray[np.float64]
Mask = NDArray[np.bool_]

DEFAULT_CUTOFF_HZ = 2.0
"""Twelve times the frequency of the gaits (1/6 Hz): their fifth harmonic passes with an error below 0.1 %."""

_ORDER = 4  # of the Butterworth filter; run forwards and backwards, its attenuation is that of order eight
_BRIDGED_PERIODS = 0.2  # gaps so long are bridged, in periods of the cut-off
_EDGE_PERIODS = 1.0  # so much at both ends of a stretch is not valid
_HIGHEST_RATE_HZ = 240.0
_MISSED_FRAMES = 2.5  # between frames further apart than so many usual intervals the motion is not valid
_OPEN_JOINT = 0.1  # ends of links that should meet may be so far apart on the whole, in link lengths
_MEDIAN_FRAMES = 7
_ROBUST_SIGMAS = 8.0  # of white noise, one frame in 1e15 strays so far
_SIGMA_OF_MEDIAN = 1.4826  # standard deviation of a Gaussian by its median absolute deviation
JUMP_M, JUMP_RAD = 0.015, float(np.deg2rad(5.0))
"""Change of pose beyond the noise of the motion capture at any frame rate."""
_SPEED_M_S, _TURNING_RATE_RAD_S = 0.5, 2.0
"""Fastest motion of a link, added for the time between frames. LandSalp's gaits reach 0.1 m/s and 0.3 rad/s."""
_SPIKE_M, _SPIKE_RAD = 0.002, float(np.deg2rad(0.5))
"""A single frame may stray so far from the median of its neighbours, and eight robust standard deviations more."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion of a chain of N links at K instants.

    Attributes
    ----------
    stamps_ns
        (K,) int64, regular.
    states
        (K, N + 2): x, y (m), heading (rad, unwrapped within a stretch), joint angles (rad), low-passed.
    rates
        (K, N + 2): body velocity of the base, forward, left (m/s), turning (rad/s), joint rates (rad/s), low-passed.
    valid
        (K,): measured, and away from gaps and edges. Elsewhere numbers are interpolated or NaN.
    stretches
        (start, stop) of the parts without long gaps; what lies between them is NaN.
    rate_hz, cutoff_hz
        Of the grid, and of the low-pass (-6 dB, for it runs forwards and backwards).
    left_out
        Frames of each link that were left out because its pose jumped.
    open_joints
        Instants left out because the ends of two links that share a joint did not meet.
    """

    stamps_ns: Stamps
    states: Rows
    rates: Rows
    valid: Mask
    stretches: tuple[tuple[int, int], ...]
    rate_hz: float
    cutoff_hz: float
    left_out: Mapping[str, int]
    open_joints: int = 0

    @property
    def duration_s(self) -> float:
        """Length of the valid part, s."""
        return float(self.valid.sum()) / self.rate_hz

    def low_pass(self, values: Rows) -> Rows:
        """Values (K, m) at the same instants through the same filter.

        NaN between the stretches, where values are NaN, and at the edges of both.
        """
        edge = round(_EDGE_PERIODS * self.rate_hz / self.cutoff_hz)
        finite: Mask = np.asarray(np.isfinite(values).all(axis=1), dtype=np.bool_)
        runs = [
            (start + first, start + last)
            for start, stop in self.stretches
            for first, last in _stretches(finite[start:stop], 3 * edge)
        ]
        out = _filtered(values, tuple(runs), self.rate_hz, self.cutoff_hz)
        for start, stop in runs:
            out[start : start + edge] = out[stop - edge : stop] = np.nan
        return out

    def held(self, stamps_ns: Stamps, values: Rows) -> Rows:
        """Means (K, m) of values (M, m), in order, that hold until the next, e.g. commands; NaN before the first.

        Averaged over the two intervals that the finite difference at an instant spans, so that both belong to the same
        time; not low-passed.
        """
        at_s = (stamps_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND
        return self._mean(PPoly(values[None], np.append(at_s, at_s[-1] + 1.0)), np.inf)

    def sampled(self, stamps_ns: Stamps, values: Rows) -> Rows:
        """Means (K, m) of a signal known by its samples (M, m), e.g. of a gyro, linear between them; NaN outside.

        Averaged over the two intervals that the finite difference at an instant spans; not low-passed.
        """
        unique_ns, first = np.unique(stamps_ns, return_index=True)
        if len(unique_ns) < 2:
            return np.full((len(self.stamps_ns), values.shape[1]), np.nan)
        at_s, nodes = (unique_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND, values[first]
        slopes = np.diff(nodes, axis=0) / np.diff(at_s)[:, None]
        return self._mean(PPoly(np.stack([slopes, nodes[:-1]]), at_s), at_s[-1])

    def _mean(self, signal: PPoly, stop_s: float) -> Rows:
        """Means over the two intervals around each instant of a signal that is known from its first node to a time."""
        step_s, integral = 1.0 / self.rate_hz, signal.antiderivative()
        time_s = (self.stamps_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND
        mean: Rows = (integral(time_s + step_s) - integral(time_s - step_s)) / (2.0 * step_s)
        mean[(time_s - step_s < signal.x[0] - 1e-9) | (time_s + step_s > stop_s + 1e-9)] = np.nan
        return mean


def motion_from_tracks(
    configuration: ChainConfiguration, bodies: Mapping[str, BodyTrack], cutoff_hz: float = DEFAULT_CUTOFF_HZ
) -> Motion:
    """Motion from the tracks of a recording, each with stamps of its own: jitter, gaps and flips are allowed.

    Parameters
    ----------
    bodies
        By name; poses of the links' centres, x along the link.
    cutoff_hz
        Of the low-pass. Six times the frequency of the motion or more: a gait's harmonics must pass.

    Raises
    ------
    UserError
        Links without ground truth, or with positions only; the cut-off does not fit the frame rate, there are too few
        frames, or links that share a joint do not meet.
    """
    names, chain = configuration.link_names, configuration.build()
    if missing := [name for name in names if name not in bodies or len(bodies[name].stamps_ns) == 0]:
        topics = ", ".join(f"ground_truth/{name}/pose" for name in missing)
        raise UserError(
            f"no motion capture of {', '.join(missing)}, {len(names) - len(missing)} of {len(names)} links are there: "
            f"the poses of all links are needed ({topics}; --topic NAME=TOPIC where the bag calls them otherwise)"
        )
    if positions := [name for name in names if bodies[name].values.shape[1] != 7]:
        raise UserError(f"motion capture of {', '.join(positions)} has positions only; headings are needed too")
    measured = [(bodies[name].stamps_ns, planar_pose(bodies[name].values)) for name in names]
    kept = [~flipped_frames(at, link_poses) for at, link_poses in measured]
    left_out = {name: int((~mask).sum()) + bodies[name].made_up for name, mask in zip(names, kept, strict=True)}
    tracks = [(at[mask], link_poses[mask]) for (at, link_poses), mask in zip(measured, kept, strict=True)]
    grid_ns, rate_hz = _grid([at for at, _ in tracks], names, cutoff_hz)
    placed, gaps_s = zip(*(_interpolated(grid_ns, *track) for track in tracks), strict=True)
    poses, gap_s = np.stack(placed, axis=1), np.max(gaps_s, axis=0)
    apart = _apart(chain, poses, gap_s * rate_hz <= _MISSED_FRAMES, names)
    gap_s[apart] = np.inf
    edge = round(_EDGE_PERIODS * rate_hz / cutoff_hz)
    stretches = _stretches(gap_s <= _BRIDGED_PERIODS / cutoff_hz, 3 * edge)
    states, rates = np.full((2, len(grid_ns), chain.link_count + 2), np.nan)
    space, valid = chain.space(), np.zeros(len(grid_ns), dtype=np.bool_)
    for start, stop in stretches:
        part = chain.state_from_links(poses[start:stop])
        central = 0.5 * rate_hz * space.minus(part[2:], part[:-2])
        rates[start:stop] = np.vstack([central[:1], central, central[-1:]])
        part[:, 2] = np.unwrap(part[:, 2])
        states[start:stop] = part
        valid[start + edge : stop - edge] = True
    states, rates = (_filtered(one, stretches, rate_hz, cutoff_hz) for one in (states, rates))
    valid &= gap_s * rate_hz <= _MISSED_FRAMES
    return Motion(grid_ns, states, rates, valid, stretches, rate_hz, cutoff_hz, left_out, int(apart.sum()))


def _grid(stamps_ns: Sequence[Stamps], names: Sequence[str], cutoff_hz: float) -> tuple[Stamps, float]:
    """Stamps where all links are known, at the usual frame rate, 240 Hz at most, and that rate."""
    few = [f"{name} has {len(at)}" for name, at in zip(names, stamps_ns, strict=True) if len(at) < 3]
    if few:
        raise UserError(f"too few usable frames of motion capture: {', '.join(few)}")
    period_s = max(float(np.median(np.diff(at))) for at in stamps_ns) / NANOSECONDS_PER_SECOND
    rate_hz = min(1.0 / period_s, _HIGHEST_RATE_HZ)
    if not 0.0 < cutoff_hz <= rate_hz / 5.0:
        raise UserError(
            f"a low-pass at {cutoff_hz:g} Hz does not fit motion capture at {rate_hz:.4g} Hz: "
            f"choose a cut-off above 0 and up to {rate_hz / 5.0:.3g} Hz"
        )
    start, stop = max(int(at[0]) for at in stamps_ns), min(int(at[-1]) for at in stamps_ns)
    common_s = (stop - start) / NANOSECONDS_PER_SECOND
    if common_s < 4.0 * _EDGE_PERIODS / cutoff_hz:
        raise UserError(
            f"the motion capture has all links for {max(common_s, 0.0):.2g} s only; at a cut-off of {cutoff_hz:g} Hz "
            f"at least {4.0 * _EDGE_PERIODS / cutoff_hz:.2g} s are needed"
        )
    count = int(common_s * rate_hz + 1e-6) + 1
    return start + np.round(np.arange(count) * (NANOSECONDS_PER_SECOND / rate_hz)).astype(np.int64), rate_hz


def _interpolated(grid_ns: Stamps, stamps_ns: Stamps, poses: Rows) -> tuple[Rows, Vector]:
    """Poses (K, 3) on the grid, linear between frames, headings unwrapped; and how far apart these frames are, s."""
    grid_s, at_s = ((one - grid_ns[0]) / NANOSECONDS_PER_SECOND for one in (grid_ns, stamps_ns))
    columns = (poses[:, 0], poses[:, 1], np.unwrap(poses[:, 2]))
    values = np.column_stack([np.interp(grid_s, at_s, column) for column in columns])
    after = np.clip(np.searchsorted(stamps_ns, grid_ns), 1, len(stamps_ns) - 1)
    gap_s: Vector = np.where(stamps_ns[after] == grid_ns, 0.0, at_s[after] - at_s[after - 1])
    return values, gap_s


def _apart(chain: Chain, poses: Rows, measured: Mask, names: Sequence[str]) -> Mask:
    """Where (K,) the ends of two links that share a joint stray from each other; UserError where they never meet."""
    half = 0.5 * chain.links[:, kernels.LENGTH]
    along = np.stack([np.cos(poses[..., 2]), np.sin(poses[..., 2])], axis=-1)
    gap = poses[:, 1:, :2] - half[1:, None] * along[:, 1:] - poses[:, :-1, :2] - half[:-1, None] * along[:, :-1]
    # In the axes of the link before, where the error of a calibration is constant.
    forward = np.einsum("kji,kji->kj", gap, along[:, :-1])
    left = gap[..., 1] * along[:, :-1, 0] - gap[..., 0] * along[:, :-1, 1]
    if not measured.any():
        return np.zeros(len(poses), dtype=np.bool_)
    offset = np.stack([np.median(forward[measured], axis=0), np.median(left[measured], axis=0)], axis=-1)
    distance = np.hypot(offset[:, 0], offset[:, 1])
    limit = _OPEN_JOINT * 2.0 * half[:-1]
    if (distance > limit).any():
        joint = int(np.argmax(distance / limit))
        raise UserError(
            f"the ends of {names[joint]} and {names[joint + 1]} are {100.0 * distance[joint]:.3g} cm apart (median of "
            "the motion capture), though they share a joint: check the order of chain.link_names, chain.link_lengths_m "
            f"({2.0 * half[joint]:g} and {2.0 * half[joint + 1]:g} m), and that each body's frame lies at the link's "
            "centre with x along the link"
        )
    stray: Mask = np.asarray(
        (np.hypot(forward - offset[:, 0], left - offset[:, 1]) > JUMP_M).any(axis=1), dtype=np.bool_
    )
    return stray & measured


def _stretches(usable: Mask, shortest: int) -> tuple[tuple[int, int], ...]:
    """(start, stop) of the runs of true that are long enough to be filtered."""
    return tuple((start, stop) for start, stop in runs(usable) if stop - start >= shortest)


def _filtered(values: Rows, stretches: tuple[tuple[int, int], ...], rate_hz: float, cutoff_hz: float) -> Rows:
    """Butterworth low-pass forwards and backwards, each stretch by itself; NaN outside the stretches."""
    sections = butter(_ORDER, cutoff_hz, fs=rate_hz, output="sos")
    out = np.full(values.shape, np.nan)
    for start, stop in stretches:
        pad = min(stop - start - 1, round(3.0 * rate_hz / cutoff_hz))
        out[start:stop] = sosfiltfilt(sections, values[start:stop], axis=0, padlen=pad)
    return out


def flipped_frames(stamps_ns: Stamps, poses: Rows) -> Mask:
    """Frames (M,) of one body that are no motion of it.

    Parameters
    ----------
    stamps_ns
        (M,) int64, increasing.
    poses
        (M, 3) x, y in metres, heading in rad (wrapped or not).
    """
    count = len(stamps_ns)
    if count < 2:
        return np.zeros(count, dtype=np.bool_)
    kept = longest_chain(
        count, lambda first, then: _reachable(stamps_ns[first], poses[first], stamps_ns[then], poses[then])
    )
    good = np.flatnonzero(kept)
    kept[good[_spikes(poses[good])]] = False
    return ~kept


def _reachable(stamps_a: Stamps, poses_a: Rows, stamps_b: Stamps, poses_b: Rows) -> Mask:
    """Whether a body can be at the poses b (K, 3) after having been at the poses a (K, 3)."""
    seconds = (stamps_b - stamps_a) / NANOSECONDS_PER_SECOND
    distance = np.hypot(poses_b[:, 0] - poses_a[:, 0], poses_b[:, 1] - poses_a[:, 1])
    turn = np.abs(np.remainder(poses_b[:, 2] - poses_a[:, 2] + np.pi, 2.0 * np.pi) - np.pi)
    return (distance <= JUMP_M + _SPEED_M_S * seconds) & (turn <= JUMP_RAD + _TURNING_RATE_RAD_S * seconds)


def _spikes(poses: Rows) -> Mask:
    """Frames (K,) that stray from the running median of their neighbours."""
    if len(poses) < _MEDIAN_FRAMES:
        return np.zeros(len(poses), dtype=np.bool_)
    smooth = np.column_stack([poses[:, :2], np.unwrap(poses[:, 2])])
    stray = np.abs(smooth - median_filter(smooth, size=(_MEDIAN_FRAMES, 1), mode="nearest"))
    allowed = np.array([_SPIKE_M, _SPIKE_M, _SPIKE_RAD])
    allowed = allowed + _ROBUST_SIGMAS * _SIGMA_OF_MEDIAN * np.median(stray, axis=0)
    return np.asarray((stray > allowed).any(axis=1), dtype=np.bool_)
