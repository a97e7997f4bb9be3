"""What holds of every filter of a moving robot: of its rates, its commands, its sensors, its start and its angles.

These need no ground truth: one recording is filtered twice, as it is and changed in a way whose effect is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import numpy as np

from onboard_estimation.base.measurement import ATTITUDE, POSE, Estimate, Measurement, Vector
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering import manifold_kernels as kernels
from onboard_estimation.testing.case import Case, bits, in_order, with_value

_FAR = 6.0
"""Standard deviations: what two estimates of one state may differ by; 2e-9 of consistent ones do."""
_SURER = 0.8
"""Share of a standard deviation: with half of the process noise it grows by 0.71 of what it should."""
_SAME_MEAN, _SAME_STDDEV = 0.25, 0.1
"""Standard deviations, and their relative difference, that other steps of integration may make.

Twice the process noise makes 0.19 at least.
"""
_NARROW = 1e-4
"""Share of a covariance that stands for a start that is known well."""
_COMMANDS = 10
_JACOBIAN_READINGS, _SMALL, _SLACK = 100, 0.1, 0.3
"""Readings that a small error is followed through, its size in standard deviations, and the relative slack."""


def repeated_commands_change_nothing(case: Case) -> None:
    """Each command once more half-way to the next, at twice the rate: it goes on acting, and time goes on as before."""
    repeated, last = [], dict[str, Measurement]()
    for one in case.measurements:
        if one.sensor in case.commands:
            before = last.get(one.sensor, one)
            if one.stamp_ns > before.stamp_ns + 1:
                repeated.append(replace(before, stamp_ns=(before.stamp_ns + one.stamp_ns) // 2))
            last[one.sensor] = one
    words = "with every command repeated half-way to the next"
    _at_another_rate(case, words, [*case.measurements, *repeated], _SAME_MEAN, 1.0 + _SAME_STDDEV)


def half_of_the_readings_tell_no_more(case: Case) -> None:
    """Every second reading of each sensor left out: estimates within their covariance of each other, and no surer."""
    left_out: set[int] = set()
    for channel in case.channels:
        own = [id(one) for one in case.measurements if one.sensor == channel.sensor and not channel.command]
        left_out |= set(own[1::2])
    kept = [one for one in case.measurements if id(one) not in left_out]
    _at_another_rate(case, "with every second reading left out", kept, _FAR, np.inf)


def _at_another_rate(case: Case, words: str, changed: Sequence[Measurement], most: float, widest: float) -> None:
    """AssertionError where means differ by more standard deviations, or these grow by more or shrink by _SURER.

    Both start known well, so that covariances are seen to grow.
    """
    given = _started(case)
    start = replace(given, covariance=_NARROW * given.covariance)
    hint = "the time between measurements must come from their stamps, and a command acts from its stamp on"
    records = case.run(case.measurements, start), case.run(changed, start)
    ratios = _agree(case, *records, most, words, hint)
    worst = int(np.argmax(np.abs(np.log(ratios))))
    assert _SURER < ratios[worst] < widest, (
        f"{words}, {case.space.names[worst]} has {ratios[worst]:.2f} of the standard deviation that it had: process "
        "noise must grow with time, not with the number of steps"
    )


def _agree(
    case: Case, record: Sequence[Estimate], other: Sequence[Estimate], most: float, words: str, hint: str
) -> Vector:
    """AssertionError where another record is too many standard deviations away; (n,) ratios of these.

    Medians over the later half of the stamps that both have.
    """
    first, second = ({one.stamp_ns: one for one in each} for each in (record, other))
    stamps = sorted(first.keys() & second.keys())
    assert stamps, f"{words}, there are no estimates at the stamps at which there were some"
    pairs = [(first[stamp], second[stamp]) for stamp in stamps[len(stamps) // 2 :]]
    steps = np.abs([case.space.minus(b.mean, a.mean) for a, b in pairs])
    variances = np.array([[np.diag(one.covariance) for one in pair] for pair in pairs])
    variances[..., variances.min(axis=(0, 1)) <= 0.0] = np.inf  # known exactly
    sizes = np.median(steps / np.sqrt(variances.max(axis=1)), axis=0)
    worst = int(np.argmax(sizes))
    assert sizes[worst] < most, (
        f"{words}, {case.space.names[worst]} is {sizes[worst]:.3g} of its standard deviations from where it was: {hint}"
    )
    ratios = np.where(np.isfinite(variances), variances, 1.0)
    return np.median(np.sqrt(ratios[:, 1] / ratios[:, 0]), axis=0)


def a_command_acts_from_its_stamp_on(case: Case) -> None:
    """A command that is another one shows in the estimates before the next command, and not first after that."""
    whole = case.first_third
    told = [one.stamp_ns for one in case.record if one.stamp_ns <= whole[-1].stamp_ns]
    for sensor in case.commands:
        places = [place for place, one in enumerate(whole) if one.sensor == sensor]
        other = 0.1 * (np.ptp([whole[place].value for place in places], axis=0) + 1.0)
        tried = late = 0
        for place, following in itertools.pairwise(places):
            acts_ns, stop_ns = whole[place].stamp_ns, whole[following].stamp_ns
            after_ns = next((stamp for stamp in told if stamp > stop_ns), None)
            if tried >= _COMMANDS or after_ns is None or not any(acts_ns < stamp <= stop_ns for stamp in told):
                continue
            changed = replace(whole[place], value=whole[place].value + other)
            found = case.run([*whole[:place], changed, *whole[place + 1 :]])
            shown = next((a.stamp_ns for a, b in zip(case.record, found, strict=False) if bits(a) != bits(b)), None)
            tried, late = tried + 1, late + (shown == after_ns)
        assert late < max(tried, 3), (
            f"{late} commands of {sensor} show in the estimates first after the next command has come: a command acts "
            "from its stamp on, not from the next one's"
        )


def every_sensor_counts(case: Case) -> None:
    """A sensor's readings in the reverse order change some estimate, or the robot rests; or its silence is told."""
    steps = [case.space.minus(one.mean, case.record[0].mean) for one in case.record]
    variances = np.median([np.diag(one.covariance) for one in case.record], axis=0)
    rests = (np.ptp(steps, axis=0) < _FAR * np.sqrt(variances)).all()
    idle, means = [], {one.stamp_ns: bits(one.mean) for one in case.record}
    for channel in case.channels:
        own = [one for one in case.measurements if one.sensor == channel.sensor]
        others = [one for one in case.measurements if one.sensor != channel.sensor]
        reverse = [replace(one, value=two.value) for one, two in zip(own, own[::-1], strict=True)]
        if len({bits(one.value) for one in own}) < 2 or _differ(means, case.run([*others, *reverse])):
            continue
        silent = case.pipeline()
        record = silent.run(in_order(case.channels, [*others, *own[: len(own) // 2]]))
        # What is watched over, or stands in for others, shows by its silence.
        if not _differ(means, record) and channel.sensor not in silent.sensor_faults:
            idle.append(channel.sensor)
    if idle and (rests or not case.estimator().linearised):
        raise SkipTest(f"{', '.join(idle)} tell nothing here: the robot rests, or they may stand in for other sensors")
    assert not idle, (
        f"{', '.join(idle)}: readings in the reverse order change no estimate; correct by them, or leave the sensor "
        "out of `listened_channels`"
    )


def _differ(means: Mapping[int, Any], record: Sequence[Estimate]) -> bool:
    """Whether estimates are others than those with these means by stamp, or at other stamps; some may be lacking."""
    return any(means.get(one.stamp_ns) != bits(one.mean) for one in record)


def a_given_start_is_taken(case: Case) -> None:
    """It goes on from the mean and the covariance that it is given; what came before does not count, commands aside."""
    initial = _started(case)
    commands = {channel.sensor for channel in case.channels if channel.command}
    early = [one for one in case.measurements if one.stamp_ns < initial.stamp_ns and one.sensor in commands]
    acting = [replace(one, stamp_ns=initial.stamp_ns) for one in {one.sensor: one for one in early}.values()]
    later = [one for one in case.measurements if one.stamp_ns > initial.stamp_ns]
    record = case.run(case.measurements, initial)
    assert bits(record) == bits(case.run([*acting, *later], initial)), (
        "measurements from before the start changed the record"
    )
    assert record, "no estimate after a given start"
    narrow = replace(initial, covariance=_NARROW * initial.covariance)
    first = _first(case, narrow)
    known, wide = (np.sqrt(np.diag(one.covariance)) for one in (first, record[0]))
    assert (known < 0.5 * wide).any(), (
        "two starts, one with a hundredth of the other's standard deviations, gave first estimates that are as sure as "
        "each other: is the covariance of `initial` used?"
    )
    for dimension, step in _steps(case, initial, 3.0):
        moved = _first(case, replace(narrow, mean=case.space.plus(narrow.mean, step)))
        found, wanted = case.space.minus(moved.mean, first.mean)[dimension], step[dimension]
        assert abs(found - wanted) < 0.5 * wanted + _FAR * known[dimension], (
            f"a start with {case.space.names[dimension]} greater by {wanted:.3g}, said to be known well, gave a first "
            f"estimate that differs by {found:.3g}: is the mean of `initial` used?"
        )


def a_start_far_off_is_left_or_covered(case: Case) -> None:
    """From a start as wrong as it states, it comes to where it is from a good one, or says that it may not."""
    good = _started(case, 0.0)
    covariance = 4.0 * good.covariance
    if isinstance(case.robot, StartedFromTruth):
        covariance = 4.0 * case.robot.initial_covariance(case.configuration)
    signs = np.where(np.arange(case.space.dimension) % 2, 1.5, -1.5)
    off = case.space.plus(good.mean, signs * np.sqrt(np.diag(covariance) / case.space.dimension))
    start = replace(good, mean=off, covariance=covariance)
    records = case.run(case.measurements, good), case.run(case.measurements, start)
    words, hint = "from a start that is as wrong as it states", "look at the Jacobians and the gate's recovery"
    _agree(case, *records, _FAR, words, hint)


def the_covariance_moves_as_the_mean(case: Case) -> None:
    """A start off by a little comes out off by d; the same variance more in its covariance comes out as d d^T more."""
    estimator, given = case.estimator(), _started(case)
    if not estimator.linearised:
        raise SkipTest("the estimator does not carry its covariance along by the derivatives of its mean: `linearised`")
    initial = replace(given, covariance=_NARROW * given.covariance)
    run = [one for one in case.measurements if one.stamp_ns > initial.stamp_ns][:_JACOBIAN_READINGS]

    def last(start: Estimate) -> Estimate:
        return next(s.estimate for _, s in reversed([*case.steps(run, start)]) if s.estimate is not None)

    whole, space, names = last(initial), case.space, case.space.names
    variances = np.diag(initial.covariance)
    scale = np.where(variances > 0.0, _SMALL * np.sqrt(variances), np.inf)
    for dimension, step in _steps(case, initial, _SMALL):
        ends = [last(replace(initial, mean=space.plus(initial.mean, way))) for way in (step, -step)]
        moved = 0.5 * (space.minus(ends[0].mean, whole.mean) - space.minus(ends[1].mean, whole.mean)) / scale
        wider = last(replace(initial, covariance=initial.covariance + np.outer(step, step)))
        found, wanted = (wider.covariance - whole.covariance) / np.outer(scale, scale), np.outer(moved, moved)
        wrong = np.abs(found - wanted) - _SLACK * (np.abs(wanted) + 0.1 * max(np.abs(wanted).max(), 1.0))
        row, column = np.unravel_index(np.argmax(wrong), wrong.shape)
        assert wrong[row, column] < 0.0, (
            f"a start off by a little in {names[dimension]} moves {names[row]} and {names[column]} so that their "
            f"covariance should grow by {wanted[row, column]:.3g} (in units of the start's), and it grows by "
            f"{found[row, column]:.3g}: a Jacobian, of motion or measurement, is not the derivative of its model"
        )


def a_whole_turn_changes_nothing(case: Case) -> None:
    """Angles of the start greater by 2 pi, quaternions of readings with the other sign: the same state."""
    initial, turns = _started(case), np.zeros(case.space.coordinate_count)
    for block in case.space.blocks:
        place = case.space.coordinates(block.name)
        if block.kind in (kernels.SE2, kernels.ANGLES):
            turns[place.stop - 1 if block.kind == kernels.SE2 else place] = 2.0 * np.pi
    turned = {
        channel.sensor: ATTITUDE.orientation if channel.field == "orientation" else POSE.orientation
        for channel in case.channels
        if channel.field == "orientation" or "/Pose" in channel.message_type
    }
    if not turns.any() and not turned:
        raise SkipTest("neither state nor sensors have an angle")
    readings = [
        with_value(one, turned[one.sensor], -one.value[turned[one.sensor]])
        if number % 2 and one.sensor in turned
        else one
        for number, one in enumerate(case.measurements)
    ]
    records = case.run(case.measurements, initial), case.run(readings, replace(initial, mean=initial.mean + turns))
    words = "with angles of the start greater by 2 pi, and quaternions of the other sign"
    hint = "take differences of angles by `space.minus` or wrap them, those of innovations too"
    _agree(case, *records, 0.01, words, hint)


def _started(case: Case, share: float = 0.1) -> Estimate:
    """A state of its own record to start from, early: filters may take for granted that robots rest at first."""
    given = case.record[int(share * len(case.record))]
    return replace(given, stamp_ns=given.stamp_ns + 1)


def _steps(case: Case, initial: Estimate, size: float) -> list[tuple[int, Vector]]:
    """Dimensions that the estimator changes, and a step (n,) along each of so many standard deviations of a start."""
    held = [case.space.tangent(name) for name in case.estimator().held]
    steps = size * np.diag(np.sqrt(np.diag(initial.covariance)))
    return [
        (dimension, step)
        for dimension, step in enumerate(steps)
        if step[dimension] > 0.0 and not any(one.start <= dimension < one.stop for one in held)
    ]


def _first(case: Case, initial: Estimate) -> Estimate:
    """The first estimate after a start."""
    pipeline = case.pipeline(initial)
    return next(one for one in map(pipeline.process, case.measurements) if one is not None)
