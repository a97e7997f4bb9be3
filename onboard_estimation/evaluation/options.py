"""What a user may say of an evaluation, each option declared once.

A field made by `option` becomes an option of the command line (`commands/evaluate_options.py`), words of the line that
repeats a run (`words`) and an entry of its `run.json` (`recorded`, taken up again by `recalled`). Help is made of this:
it imports no NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onboard_estimation.errors import UserError

if TYPE_CHECKING:  # it imports NumPy
    from onboard_estimation.robots import Alignment


def _as_it_is(value: Any) -> Any:
    return value


def _one_text(value: Any) -> Sequence[str]:
    return [str(value)]


@dataclass(frozen=True)
class Option:
    """How a field is typed, said again and recorded.

    Attributes
    ----------
    flag, help, metavar, panel
        As the command's help shows it.
    typed
        What the command line gives: `list[str]` may be repeated, `bool` is a flag that turns the default round.
    minimum
        Least number that may be typed.
    read
        The value from what was typed; UserError where it is none.
    texts
        What is to be typed for a value, one text a repetition.
    is_recorded
        It stands in `run.json`; false: the run folder holds it otherwise.
    """

    flag: str
    help: str
    typed: Any = str | None
    metavar: str | None = None
    panel: str | None = None
    minimum: int | None = None
    read: Callable[[Any], Any] = _as_it_is
    texts: Callable[[Any], Sequence[str]] = _one_text
    is_recorded: bool = True


def option(default: Any, flag: str, help: str, **more: Any) -> Any:
    """A field of a dataclass that users set; `more` as for `Option`. A default that is a type makes one of it."""
    metadata = {"option": Option(flag, help, **more)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def parse_pairs(texts: Sequence[str], flag: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; UserError where there is no equals sign, or a name comes twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"{flag} {text}: write {flag} {form}")
        if name in pairs:
            raise UserError(f"{flag} {name} is given twice: {pairs[name]} and {value}")
        pairs[name] = value
    return pairs


def parse_overrides(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` with the value in YAML, as in a parameter file."""
    import yaml

    out: dict[str, Any] = {}
    for name, value in parse_pairs(texts, "--set").items():
        try:
            out[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"--set {name}={value}: the value is no YAML") from None
    return out


def override_texts(overrides: Mapping[str, Any]) -> list[str]:
    """Each as `--set` reads it: plain where that reads back as it is."""
    import yaml

    def text(value: Any) -> str:
        plain = str(value)
        return plain if isinstance(value, str) and yaml.safe_load(plain) == value else json.dumps(value)

    return [f"{name}={text(value)}" for name, value in overrides.items()]


def read_topics(texts: Sequence[str]) -> dict[str, str]:
    """Topics of the bag by the robot's own names, of `NAME=TOPIC`."""
    return parse_pairs(texts, "--topic", "NAME=TOPIC")


def topic_texts(topics: Mapping[str, str]) -> list[str]:
    """What is to be typed for topics."""
    return [f"{relative}={topic}" for relative, topic in topics.items()]


def read_axes(text: str | None) -> str | None:
    """Axes to be turned round; UserError where they are none."""
    if text is not None and not (0 < len(set(text)) == len(text) and set(text) <= set("xyz")):
        raise UserError(f"--mirror-truth {text}: must be one or more of x, y, z, e.g. y")
    return text


def read_one_of(flag: str, *known: str) -> Callable[[str | None], str | None]:
    """Of a flag that takes one of some words: what reads it."""

    def read(text: str | None) -> str | None:
        if text is not None and text not in known:
            raise UserError(f"{flag} {text}: must be {', '.join(known[:-1])} or {known[-1]}")
        return text

    return read


def read_time(flag: str) -> Callable[[float | None], float | None]:
    """Of a flag that takes a time of 0 s or more: what reads it."""

    def read(value: float | None) -> float | None:
        if value is not None and not 0.0 <= value < math.inf:
            raise UserError(f"{flag} {value}: must be a time of 0 s or more")
        return value

    return read


def read_path(text: str | Path | None) -> Path | None:
    """A path, or none."""
    return None if text is None else Path(text)


def read_rate(text: str | None) -> float | None:
    """Hz, infinite for `all`; UserError where it is none."""
    if text is None or text == "all":
        return None if text is None else math.inf
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0.0 < rate < math.inf:
        raise UserError(f"--estimates-rate {text}: must be a rate in Hz above 0, or all")
    return rate


def rate_texts(rate_hz: float) -> list[str]:
    """What is to be typed for a rate."""
    return [f"{rate_hz:g}" if math.isfinite(rate_hz) else "all"]


def read_turned(flag: bool) -> bool:
    """The other of true and false."""
    return not flag


ALIGNMENTS = ("none", "start", "heading", "se3")
FORMATS = ("tum", "kitti", "euroc", "csv")

_WHAT_IF = "What if: changes to the recording before it is replayed; may be repeated"
_JUDGED = "How it is judged"
_WRITTEN = "What is written"
_FOREIGN = "Another filter's trajectory, judged as ours are"


_several = partial(option, (), typed=list[str], panel=_WHAT_IF, read=tuple, texts=list)
_number = partial(option, typed=float | None, metavar="S", panel=_JUDGED)


@dataclass(frozen=True)
class WhatIf:
    """Changes to the recorded measurements; a sensor may be a prefix (`imu`), a component too (`gyro`).

    Attributes
    ----------
    drop
        Sensors left out.
    delay
        `SENSOR=TIME`: stamps moved later by that time, as a latency that nobody knows of would.
    bias
        `SENSOR.COMPONENT=VALUE`, in the measurement's unit.
    noise
        `SENSOR.COMPONENT=STDDEV`: white noise.
    seed
        Of the noise.
    """

    drop: tuple[str, ...] = _several(
        "--drop", "Leave a sensor out, e.g. `imu/link_2`; `imu`: all IMUs.", metavar="SENSOR"
    )
    delay: tuple[str, ...] = _several(
        "--delay", "Stamps that much too late, e.g. `imu=20ms`; s, ms or us.", metavar="SENSOR=TIME"
    )
    bias: tuple[str, ...] = _several(
        "--bias",
        "A constant added, SI units, e.g. `imu/link_1.gyro_z=0.01` (rad/s).",
        metavar="SENSOR.COMPONENT=VALUE",
    )
    noise: tuple[str, ...] = _several(
        "--noise",
        "White noise added, SI units, e.g. `imu.gyro=0.01` (rad/s a sample, all axes).",
        metavar="SENSOR.COMPONENT=STDDEV",
    )
    seed: int = 0

    def drops(self, sensor: str) -> bool:
        """Whether that sensor is left out."""
        return any(is_part(sensor, name) for name in self.drop)

    def check_drops(self, sensors: Sequence[str]) -> None:
        """Raise UserError where a name to be left out is none of these sensors."""
        for name in self.drop:
            if not any(is_part(sensor, name) for sensor in sensors):
                raise UserError(f"--drop {name}: no such sensor; there are {', '.join(sensors)}")

    def sentences(self) -> list[str]:
        """One sentence a change, for the report."""
        changes = [("left out", self.drop), ("delayed", self.delay), ("biased", self.bias), ("noise added", self.noise)]
        return [f"What if: {words} {', '.join(what)}." for words, what in changes if what]


def is_part(name: str, prefix: str) -> bool:
    """Whether a sensor or component is the one of that name, or one of those that begin with it."""
    return name == prefix or name.startswith((prefix + "/", prefix + "_"))


@dataclass(frozen=True)
class JudgeSettings:
    """How a run is judged.

    Attributes
    ----------
    initial
        Where the robot's initial state is taken from the truth: `drawn` adds an error drawn from the initial
        covariance, so that the filter starts as unsure as it says; `exact` does not.
    seed
        Of that error.
    longest_truth_gap_s
        Truth is interpolated between messages at most this far apart.
    settle_s
        Start left out of the metrics; None: the robot's own.
    alignment
        How the estimate is taken into the truth's frame, see `alignment`; None: as the robot's truth specification
        says, `none` where there is no robot.
    lag_s
        How late a measurement may arrive; None: the configuration's `lag_s`, else 0.2 s.
    beacon_s
        The truth's pose is given to the filter every so many seconds, see `beacon`; None: never.
    smooth
        Judge the robot's smoother, each of whose estimates knows the whole recording, in the place of its filter.
    bulk
        Let a robot that can filter the whole recording at once do so; false: measurement by measurement, as live.
    """

    initial: Literal["drawn", "exact"] = option(
        "drawn",
        "--initial",
        "Where the initial state comes from the truth: `drawn` adds an error as large as the filter believes, `exact` "
        "does not.",
        typed=str,
        metavar="drawn|exact",
        panel=_JUDGED,
        read=read_one_of("--initial", "drawn", "exact"),
    )
    seed: int = option(
        0, "--seed", "Of that error, and of `--noise`.", typed=int, metavar="N", minimum=0, panel=_JUDGED
    )
    longest_truth_gap_s: float = _number(
        0.1, "--truth-gap", "Interpolate the truth over gaps up to this, s.", typed=float, read=read_time("--truth-gap")
    )
    settle_s: float | None = _number(
        None,
        "--settle",
        "Leave this much at the start out of the figures, s; the robot's own otherwise.",
        read=read_time("--settle"),
    )
    lag_s: float | None = _number(
        None,
        "--lag",
        "How late a message may come and still be used, s, below 10; the configuration's otherwise.",
        read=read_time("--lag"),
    )
    alignment: Alignment | None = option(
        None,
        "--alignment",
        "Before comparing: `none`: as it is; `start`: the first pose onto the truth's; `heading`: turned about the "
        "vertical (least squares), from the truth's start; `se3`: turned and shifted by least squares. The robot's own "
        "otherwise.",
        metavar="|".join(ALIGNMENTS),
        panel=_JUDGED,
        read=read_one_of("--alignment", *ALIGNMENTS),
    )
    beacon_s: float | None = _number(
        None, "--beacon", "Give the filter the pose of the motion capture every so many seconds, as a beacon would."
    )
    smooth: bool = option(
        False,
        "--smooth",
        "Judge the robot's smoother, which knows the whole recording at every instant; not every robot has one.",
        typed=bool,
        panel=_JUDGED,
    )
    bulk: bool = option(
        True,
        "--message-by-message",
        "Filter measurement by measurement, as live, where the robot could filter the recording at once. The figures "
        "are the same.",
        typed=bool,
        panel=_JUDGED,
        read=read_turned,
    )


@dataclass(frozen=True)
class EvaluateOptions:
    """What a user may say of an evaluation; all of it has a default or is guessed.

    Attributes
    ----------
    robot, estimator
        None: guessed from the topics; the robot's first estimator.
    config
        Parameter file; None: the robot's default.
    overrides
        Parameters by dotted name.
    model
        File of a trained model; None: the one that the configuration names, if any.
    topics
        Relative topic name to topic of the bag, where names differ.
    namespace
        Of the robot's topics; None: the one that holds most of them.
    mirror_truth
        Axes of the ground truth to turn round: one or more of x, y, z.
    align_clock
        Move the ground truth in time by the offset that its motion has against the IMUs'.
    trajectory
        Topic of a bag that holds another filter's estimates, which are judged in the place of a robot's.
    truth
        Bag or trajectory file that holds the truth of such estimates; None: the bag that they are in.
    body
        Of a bag's ground truths the one of this body.
    format, times
        Of a trajectory file; None: guessed. Times in seconds of a KITTI file, which has none.
    estimates_rate_hz
        Largest rate of the estimates that are written; infinity: all; None: all, unless there are very many.
    """

    robot: str | None = None
    estimator: str | None = None
    config: Path | None = option(
        None,
        "--config",
        "ROS 2 parameter file, as `onboard-estimation config ROBOT` prints it.",
        typed=Path | None,
        metavar="FILE",
        is_recorded=False,
    )
    model: Path | None = option(
        None,
        "--model",
        "Trained model, as `onboard-estimation train` writes it.",
        typed=Path | None,
        metavar="FILE",
        is_recorded=False,
    )
    overrides: Mapping[str, Any] = option(
        dict,
        "--set",
        "Set one parameter; may be repeated. E.g. `gyro.axis=-z`.",
        typed=list[str],
        metavar="NAME=VALUE",
        read=parse_overrides,
        texts=override_texts,
    )
    topics: Mapping[str, str] = option(
        dict,
        "--topic",
        "Where the bag calls a topic otherwise; may be repeated. E.g. `imu/link_1/data_raw=/my/imu`.",
        typed=list[str],
        metavar="NAME=TOPIC",
        read=read_topics,
        texts=topic_texts,
    )
    namespace: str | None = option(
        None,
        "--namespace",
        "Namespace of the robot's topics, where several robots are there.",
        metavar="NAME",
    )
    mirror_truth: str | None = option(
        None,
        "--mirror-truth",
        "Turn round axes of the truth: `y` for a left-handed one, `yz` for z down.",
        metavar="AXES",
        read=read_axes,
    )
    align_clock: bool = option(
        False,
        "--align-clock",
        "Move the truth's stamps onto the IMUs' by what the motion tells, see `inspect`; refused where it does not.",
        typed=bool,
    )
    trajectory: str | None = option(
        None,
        "--trajectory",
        "Judge the poses on this topic of the bag, of whatever filter: nav_msgs/Odometry, geometry_msgs/PoseStamped, "
        "PoseWithCovarianceStamped or PointStamped.",
        metavar="TOPIC",
        panel=_FOREIGN,
    )
    truth: Path | None = option(
        None,
        "--truth",
        "Where the truth of a trajectory is: a bag with motion capture, or a trajectory file.",
        typed=Path | None,
        metavar="BAG|FILE",
        panel=_FOREIGN,
        read=read_path,
    )
    body: str | None = option(
        None,
        "--body",
        "Of several bodies in the truth's bag, the one that was estimated.",
        metavar="NAME",
        panel=_FOREIGN,
    )
    format: str | None = option(
        None,
        "--format",
        "Format of the trajectory file; guessed from its name and content otherwise.",
        metavar="|".join(FORMATS),
        panel=_FOREIGN,
        read=read_one_of("--format", *FORMATS),
    )
    times: Path | None = option(
        None,
        "--times",
        "Times of the poses of a KITTI file, which has none: seconds, one a line.",
        typed=Path | None,
        metavar="FILE",
        panel=_FOREIGN,
        read=read_path,
    )
    what_if: WhatIf = field(default_factory=WhatIf)
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    estimates_rate_hz: float | None = option(
        None,
        "--estimates-rate",
        "Largest rate of the estimates that are written as a bag; very many are thinned otherwise. Figures are always "
        "made of all.",
        metavar="HZ|all",
        panel=_WRITTEN,
        read=read_rate,
        texts=rate_texts,
    )


def declared(options: Any = None) -> Iterator[tuple[str, Option, Any]]:
    """All options with their values, by the names of their fields; by default with their default values."""
    options = EvaluateOptions() if options is None else options
    for one in fields(options):
        value = getattr(options, one.name)
        if "option" in one.metadata:
            yield one.name, one.metadata["option"], value
        elif is_dataclass(value):
            yield from declared(value)


def from_typed(typed: Mapping[str, Any], base: EvaluateOptions | None = None) -> EvaluateOptions:
    """Options from what the command line gave, by the names of their fields.

    Parameters
    ----------
    base
        What others are; None: the defaults. Several that may be repeated are added to those of `base`.

    Raises
    ------
    UserError
        A text that is no value of its option.
    """
    values = {}
    for name, it, before in declared(base):
        if name in typed:
            value = it.read(typed[name])
            if isinstance(value, tuple):
                value = (*before, *value)
            values[name] = {**before, **value} if isinstance(value, dict) else value
        elif base is not None:
            values[name] = before
    made: EvaluateOptions = _made(EvaluateOptions, values)
    return made


def words(options: EvaluateOptions) -> list[str]:
    """What to type for these options, but for robot and estimator; nothing for what is at its default."""
    out: list[str] = []
    for (_, it, value), (_, _, default) in zip(declared(options), declared(), strict=True):
        if value != default:
            out += [it.flag] if it.typed is bool else [word for text in it.texts(value) for word in (it.flag, text)]
    return out


def recorded(options: EvaluateOptions) -> dict[str, Any]:
    """The options for `run.json`, by the names of their fields; a rate without a limit as it is typed."""
    return {name: _to_json(value) for name, it, value in declared(options) if it.is_recorded}


def recalled(record: Mapping[str, Any]) -> EvaluateOptions:
    """The options that `recorded` gave, from JSON.

    Raises
    ------
    KeyError
        An option that is not there.
    """
    values = {name: (record[name], it) for name, it, _ in declared() if it.is_recorded}
    made: EvaluateOptions = _made(
        EvaluateOptions,
        {
            name: read_path(value) if it.typed == Path | None else _from_json(value)
            for name, (value, it) in values.items()
        },
    )
    return made


_PARTS: Sequence[Any] = (WhatIf, JudgeSettings)


def _to_json(value: Any) -> Any:
    return "all" if value == math.inf else str(value) if isinstance(value, Path) else value


def _from_json(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else math.inf if value == "all" else value


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    """One of a dataclass; a value goes to all fields of its name, those of the dataclasses within it too."""
    given = {}
    for one in fields(kind):
        if one.name in values:
            given[one.name] = values[one.name]
        elif one.default_factory in _PARTS:
            given[one.name] = _made(one.default_factory, values)
    return kind(**given)
