"""What a user may say of an evaluation, each option declared once.

A field made by `option` becomes an option of the command line (`commands/arguments.py`), words of the line that
repeats a run (`words`) and an entry of its `run.json` (`recorded`, taken up again by `recalled`). Its type is that of
the field, its help the first paragraph that the docstring of its dataclass has on it: NumPy is not imported for it.
"""

from __future__ import annotations

import inspect
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

if TYPE_CHECKING:
    from onboard_estimation.base.series import Fault

Keep = Literal["figures", "reports", "everything"]
Format = Literal["tum", "tum_ns", "openvins", "euroc", "kitti", "csv", "motive", "vicon"]
FORMATS: tuple[str, ...] = get_args(Format)


def _as_it_is(value: Any) -> Any:
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}={one}" for name, one in value.items()]
    return list(value) if isinstance(value, tuple) else [str(value)]


@dataclass(frozen=True)
class Option:
    """How a field is typed, said again and recorded.

    Attributes
    ----------
    flag, help, metavar, panel
        As the command's help shows it.
    other_flags
        What may be typed in the place of `flag`.
    typed
        What the command line gives: `list[str]` may be repeated, `bool` is a flag that turns the default round.
    minimum
        Least number that may be typed.
    read
        The value from what was typed; ValueError where it is none.
    must
        What it must be, in words.
    texts
        What is to be typed for a value, one text a repetition.
    is_recorded
        It stands in `run.json`; false: the run folder holds it otherwise.
    """

    flag: str
    help: str
    typed: Any
    metavar: str | None = None
    panel: str | None = None
    minimum: int | None = None
    read: Callable[[Any], Any] = _as_it_is
    must: str = ""
    texts: Callable[[Any], list[str]] = _texts
    is_recorded: bool = True
    other_flags: tuple[str, ...] = ()

    def value(self, typed: Any, before: Any) -> Any:
        """The value from what was typed; several are added to those before. UserError where it is none."""
        try:
            value = None if typed is None else self.read(typed)
        except ValueError:
            raise UserError(f"{self.flag} {typed}: must be {self.must}") from None
        if isinstance(value, tuple):
            return (*before, *value)
        return {**before, **value} if isinstance(value, dict) else value


def option(default: Any, **more: Any) -> Any:
    """A field of a dataclass that users set; `more` as for `Option`. A default that is a type makes one of it."""
    if isinstance(default, type):
        return field(default_factory=default, metadata={"option": more})
    return field(default=default, metadata={"option": more})


@cache
def _options(kind: type) -> dict[str, Option]:
    """Options among the fields of a dataclass, by name."""
    helps: dict[str, str] = dict(re.findall(r"^(\w+)\n((?: +\S.*\n?)+)", inspect.getdoc(kind) or "", re.MULTILINE))
    hints = get_type_hints(kind)
    return {
        one.name: _option(
            one.name, " ".join(helps.get(one.name, "").split()), hints[one.name], **one.metadata["option"]
        )
        for one in fields(kind)
        if "option" in one.metadata
    }


def _option(name: str, help: str, hint: Any, **more: Any) -> Option:
    may_be_none = NoneType in get_args(hint)
    inner = get_args(hint)[0] if may_be_none else hint
    if get_origin(inner) is Literal:
        known = get_args(inner)
        must = f"{', '.join(known[:-1])} or {known[-1]}"
        more = {"metavar": "|".join(known), "read": partial(_one_of, known), "must": must, **more}
        hint = str | None if may_be_none else str
    elif get_origin(inner) is not None:
        hint = list[str]
        if get_origin(inner) is tuple:
            more = {"read": tuple, **more}
    flag = "--" + re.sub("_(s|hz)$", "", name).replace("_", "-")
    return Option(**{"flag": flag, "help": " ".join(help.split()), "typed": hint, **more})


def within(least: float, most: float, must: str = "") -> dict[str, Any]:
    """What an `option` is besides that takes a number between these, both included."""

    def read(value: float) -> float:
        if not least <= value <= most:
            raise ValueError
        return value

    return {"read": read, "must": must or f"from {least:g} to {most:g}"}


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


def path_word(path: str | Path) -> str:
    """A path as an argument of a command, where none may begin like an option."""
    return f"./{path}" if isinstance(path, Path) and str(path).startswith("-") else str(path)


def parse_overrides(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` with the value in YAML, as in a parameter file."""
    from onboard_estimation.base.parameter_file import yaml_value

    out: dict[str, Any] = {}
    for name, value in parse_pairs(texts, "--set").items():
        try:
            out[name] = yaml_value(value)
        except UserError as error:
            raise UserError(f"--set {name}={value}: the value is no YAML: {error}") from None
    return out


def override_texts(overrides: Mapping[str, Any]) -> list[str]:
    """Each as `--set` reads it."""
    from onboard_estimation.base.parameter_file import to_yaml

    return [f"{name}={to_yaml(value, default_flow_style=True).strip()}" for name, value in overrides.items()]


_DURATION = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\W\d]*)")
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6}


def parse_duration(text: str) -> float:
    """Seconds from `20ms`, `0.02s`, `500us`; a number alone is refused, for it may be meant in any of them."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no time; write 20ms, 0.02s or 500us")
    number, unit = found.groups()
    if unit not in _PER_SECOND:
        fault = f"{unit!r} is no unit of time" if unit else f"{text!r} has no unit"
        raise UserError(f"{fault}; write {number}ms, {number}s or {number}us")
    return float(number) / _PER_SECOND[unit]


_FAULT = re.compile(r"([^=]+)=(?:(stuck|silent)|(\*|~|drift |clip |late |(?=[+-]))([^@]+))(?:@(.+?)(?:\.\.(.+))?)?")
_KINDS = {"": "offset", "*": "scale", "~": "noise"}
_FORM = (
    "write --fault SENSOR.COMPONENT=CHANGE@FROM[..UNTIL], CHANGE being +0.03 or -0.03 (added), *1.08, ~0.2 (noise), "
    "'drift 0.001' (a second), 'clip 20', stuck, silent or 'late 0.2s'; FROM and UNTIL in s after the start"
)


def parse_fault(text: str) -> Fault:
    """The fault of `imu/link_2.gyro_z=+0.03@15..20`, over all of the run where no time is given.

    Raises
    ------
    UserError
        A text that says none.
    """
    from onboard_estimation.base.series import Fault  # NumPy

    found = _FAULT.fullmatch(text)
    if found is None:
        raise UserError(f"--fault {text}: {_FORM}")
    name, word, sign, amount, begin, end = found.groups()
    kind: Any = word or _KINDS.get(sign, sign.strip())
    try:
        size = parse_duration(amount) if kind == "late" else float(amount or 0.0)
        fault = Fault(name, kind, size, float(begin or -math.inf), float(end or math.inf), text=text)
    except ValueError:
        raise UserError(f"--fault {text}: {_FORM}") from None
    except UserError as error:
        raise UserError(f"--fault {text}: {error}") from None
    if begin and not 0.0 <= fault.from_s < fault.until_s:
        raise UserError(f"--fault {text}: must begin at 0 s or later, and before it ends")
    return fault


def parse_faults(text: str) -> list[Fault]:
    """Those of a text with `;` between them, as a bag and a node have them. Raises as `parse_fault`."""
    return [parse_fault(one.strip()) for one in text.split(";") if one.strip()]


def _numbers(flag: str, texts: Sequence[str], number: Callable[[str], float] = float) -> dict[str, float]:
    """`SENSOR=VALUE` options as a mapping of numbers."""
    out = {}
    for name, value in parse_pairs(texts, flag, "SENSOR=VALUE").items():
        try:
            out[name] = number(value)
        except ValueError:
            raise UserError(f"{flag} {name}={value}: {value!r} is no number") from None
        except UserError as error:
            raise UserError(f"{flag} {name}={value}: {error}") from None
    return out


def _one_of(known: Sequence[str], text: str) -> str:
    if text not in known:
        raise ValueError
    return text


def _axes(text: str) -> str:
    if not 0 < len(set(text)) == len(text) or not set(text) <= set("xyz"):
        raise ValueError
    return text


def _own_or_shipped(file: Path) -> Path:
    """The file as it is named, or the one of that name that is installed, e.g. `config/salp_ten_links.yaml`."""
    if not file.exists() and not file.is_absolute() and file.parts[0] == "config":
        with suppress(UserError):
            return resource(str(file))
    return file


def _rate(text: str) -> float:
    """Hz, infinite for `all`."""
    rate = math.inf if text == "all" else float(text)
    if text != "all" and not 0.0 < rate < math.inf:
        raise ValueError
    return rate


_judged = partial(option, panel="How it is judged")
_seconds = partial(_judged, metavar="S")
_time_s = partial(_seconds, **within(0.0, math.nextafter(math.inf, 0.0), "a time of 0 s or more"))
_FOREIGN = "Another filter's trajectory, judged as ours are"
_what_if = partial(option, panel="What if: changes to the recording before it is replayed; may be repeated")


@dataclass(frozen=True)
class WhatIf:
    """Changes to the recorded measurements; a sensor may be a prefix (`imu`), a component too (`gyro`).

    Attributes
    ----------
    drop
        Leave a sensor out, e.g. `imu/link_2`; `imu`: all IMUs.
    delay_s
        Stamps that much too late, e.g. `imu=20ms`; s, ms or us.

        As a latency that nobody knows of would.
    bias
        A constant added, SI units, e.g. `imu/link_1.gyro_z=0.01` (rad/s).
    noise
        White noise added, SI units, e.g. `imu.gyro=0.01` (rad/s a sample, all axes).
    fault
        Would it notice? A fault in the middle of the run, e.g. `imu/link_2.gyro_z=+0.03@15..20` (s after the start; to
        the end without `..20`). In the place of `+0.03`: `*1.08`, `~0.2` (noise), `drift 0.001` (a second), `clip 20`,
        `stuck`, `silent`, `late 0.2s`. In the place of a sensor, what changes of a simulated robot: `wheel_2=*0.7`; a
        wrong name shows all.

        The other four are short for faults that last.
    """

    drop: tuple[str, ...] = _what_if((), metavar="SENSOR")
    delay_s: Mapping[str, float] = _what_if(
        dict,
        metavar="SENSOR=TIME",
        read=partial(_numbers, "--delay", number=parse_duration),
        texts=lambda delays_s: [f"{name}={delay_s}s" for name, delay_s in delays_s.items()],
    )
    bias: Mapping[str, float] = _what_if(dict, metavar="SENSOR.COMPONENT=VALUE", read=partial(_numbers, "--bias"))
    noise: Mapping[str, float] = _what_if(dict, metavar="SENSOR.COMPONENT=STDDEV", read=partial(_numbers, "--noise"))
    fault: tuple[str, ...] = _what_if((), metavar="NAME=CHANGE@FROM[..UNTIL]")

    def __post_init__(self) -> None:
        for text in self.fault:
            parse_fault(text)
        for numbers in (self.delay_s, self.bias, self.noise):
            if not isinstance(numbers, Mapping):
                raise UserError(f"a what-if takes numbers by name, as in bias={{'imu.gyro_z': 0.01}}, not {numbers!r}")

    def drops(self, sensor: str) -> bool:
        """Whether that sensor is left out."""
        return any(is_part(sensor, name) for name in self.drop)

    def check_drops(self, sensors: Sequence[str]) -> None:
        """Raise UserError where a name to be left out is none of these sensors."""
        for name in self.drop:
            if not any(is_part(sensor, name) for sensor in sensors):
                raise UserError(f"--drop {name}: no such sensor; there are {', '.join(sensors)}")

    def faults(self) -> list[Fault]:
        """All of it, in the order in which it is done."""
        from onboard_estimation.base.series import Fault  # NumPy

        return [
            *(Fault(name, "silent", flag="--drop") for name in self.drop),
            *(Fault(name, "late", size, flag="--delay") for name, size in self.delay_s.items()),
            *(Fault(name, "offset", size, flag="--bias") for name, size in self.bias.items()),
            *(Fault(name, "noise", size, flag="--noise") for name, size in self.noise.items()),
            *map(parse_fault, self.fault),
        ]

    def sentences(self) -> list[str]:
        """One sentence a change, for the report."""
        done = {"drop": "left out", "delay_s": "delayed", "bias": "biased", "noise": "noise added", "fault": "fault"}
        changes = [(done[name], it.texts(value)) for name, it, value in declared(self)]
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
        Where the initial state comes from the truth: `drawn` adds an error as large as the filter believes, `exact`
        does not.

        Drawn from the initial covariance, so that the filter starts as unsure as it says.
    seed
        Of that error, and of `--noise`.
    longest_truth_gap_s
        Interpolate the truth over gaps up to this, s.
    settle_s
        Leave this much at the start out of the figures, s; the robot's own otherwise.
    lag_s
        How late a message may come and still be used, s, below 10; the configuration's otherwise.

        0.2 s where that has no `lag_s`.
    alignment
        Before comparing: `none`: as it is; `start`: the first pose onto the truth's; `heading`: turned about the
        vertical (least squares), from the truth's start; `se3`: turned and shifted by least squares. The robot's own
        otherwise.

        See `judging/alignment.py`; `none` where there is no robot.
    beacon_s
        Give the filter the pose of the motion capture every so many seconds, as a beacon would.
    smooth
        Judge the robot's smoother, which knows the whole recording at every instant; not every robot has one.
    bulk
        Filter measurement by measurement, as live, where the robot could filter the recording at once. The figures
        are the same.

        That is what false means.
    """

    initial: Literal["drawn", "exact"] = _judged("drawn")
    seed: int = _judged(0, metavar="N", minimum=0)
    longest_truth_gap_s: float = _time_s(0.1, flag="--truth-gap")
    settle_s: float | None = _time_s(None)
    lag_s: float | None = _time_s(None)
    alignment: Literal["none", "start", "heading", "se3"] | None = _judged(None)
    beacon_s: float | None = _seconds(None)
    smooth: bool = _judged(False)
    bulk: bool = _judged(True, flag="--message-by-message", read=lambda flag: not flag)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class EvaluateOptions:
    """What a user may say of an evaluation; all of it has a default or is guessed.

    Attributes
    ----------
    robot, estimator
        None: guessed from the topics; the robot's first estimator.
    config
        ROS 2 parameter file, as `onboard-estimation config ROBOT` prints it; one that is installed, `config/x.yaml`.
    model
        Trained model, as `onboard-estimation train` writes it.

        None: the one that the configuration names, if any.
    overrides
        Set one parameter; may be repeated. E.g. `gyro.axis=-z`.
    topics
        Where the bag calls a topic otherwise; may be repeated. E.g. `imu/link_1/data_raw=/my/imu`.
    namespace
        Namespace of the robot's topics, where several robots are there.

        None: the one that holds most of them.
    mirror_truth
        Turn round axes of the truth: `y` for a left-handed one, `yz` for z down.
    align_clock
        Move the truth's stamps onto the IMUs' by what the motion tells, see `inspect`; refused where it does not.
    trajectory
        Judge the poses on this topic of the bag, of whatever filter: nav_msgs/Odometry, geometry_msgs/PoseStamped,
        PoseWithCovarianceStamped, TransformStamped or PointStamped.
    truth
        Where the truth of a trajectory is: a bag with motion capture, or a trajectory file.

        None: the bag that it is in.
    body
        Of several bodies in the truth's bag, or in an export of Motive or Vicon, the one that was estimated.
    format
        Format of the trajectory file; told by its name and first lines otherwise.
    truth_format
        Format of a file with the truth; told by its name and first lines otherwise.
    shift_s
        Added to the stamps of the trajectory, s, where its clock is another.
    times
        Times of the poses of a KITTI file, which has none: seconds, one a line.
    estimates_rate_hz
        Largest rate of the estimates that are written as a bag; above 10,000 otherwise 100 Hz, and 100,000 in all.
        Figures are always made of all.

        Infinity: all.
    """

    robot: str | None = None
    estimator: str | None = None
    config: Path | None = option(None, metavar="FILE", read=_own_or_shipped, is_recorded=False)
    model: Path | None = option(None, metavar="FILE", is_recorded=False)
    overrides: Mapping[str, Any] = option(
        dict, flag="--set", metavar="NAME=VALUE", read=parse_overrides, texts=override_texts
    )
    topics: Mapping[str, str] = option(
        dict, flag="--topic", metavar="NAME=TOPIC", read=partial(parse_pairs, flag="--topic", form="NAME=TOPIC")
    )
    namespace: str | None = option(None, metavar="NAME")
    mirror_truth: str | None = option(None, metavar="AXES", read=_axes, must="one or more of x, y, z, e.g. y")
    align_clock: bool = option(False)
    trajectory: str | None = option(None, metavar="TOPIC", panel=_FOREIGN)
    truth: Path | None = option(None, metavar="BAG|FILE", panel=_FOREIGN)
    body: str | None = option(None, metavar="NAME", panel=_FOREIGN)
    format: Format | None = option(None, panel=_FOREIGN)
    truth_format: Format | None = option(None, panel=_FOREIGN)
    shift_s: float = option(0.0, metavar="S", panel=_FOREIGN, **within(-4e9, 4e9, "a time of at most 4e9 s"))
    times: Path | None = option(None, metavar="FILE", panel=_FOREIGN)
    what_if: WhatIf = field(default_factory=WhatIf)
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    estimates_rate_hz: float | None = option(
        None,
        typed=str | None,
        metavar="HZ|all",
        panel="What is written",
        read=_rate,
        must="a rate in Hz above 0, or all",
        texts=lambda rate_hz: [str(rate_hz) if math.isfinite(rate_hz) else "all"],
    )


_searched = partial(option, panel="How it is searched")


@dataclass(frozen=True)
class TuningSettings:
    """How `tune` searches.

    Attributes
    ----------
    by
        What is foretold best: the ground truth (errors, and whether the covariance fits them), or the measurements
        themselves, for which no truth is needed. The truth where all bags have one.

        See `tuning_score`.
    evaluations
        Candidates in each search, about.
    folds
        Parts of the bags that are left out by turns, to say whether it helps; 0: none.
    seed
        Of the search.

        And of which are left out together.
    """

    by: Literal["truth", "innovations"] | None = _searched(None)
    evaluations: int = _searched(150, metavar="N", minimum=20)
    folds: int = _searched(3, metavar="N", minimum=0)
    seed: int = _searched(0, metavar="N", minimum=0)

    def __post_init__(self) -> None:
        _check(self)


_simulated = partial(option, panel="What is simulated, of a ROBOT")


@dataclass(frozen=True)
class CampaignSettings:
    """What a campaign is told beside a table.

    Attributes
    ----------
    scenario
        Scenario, see `onboard-estimation robots`; the robot's first otherwise.
    variant
        What it does; may be repeated; all variants otherwise.
    seeds
        Number of seeds.
    first_seed
        First seed.
    duration_s
        Length of each run, s.
    keep
        What each run leaves: its figures; its report.html too; plots and estimates as a bag as well.
    """

    scenario: str | None = _simulated(None, metavar="NAME")
    variant: tuple[str, ...] = _simulated((), flag="--gait", other_flags=("--variant",), metavar="NAME")
    seeds: int = _simulated(20, metavar="N", minimum=1)
    first_seed: int = _simulated(0, metavar="N", minimum=0)
    duration_s: float = _simulated(60.0, metavar="S")
    keep: Keep = option("reports", must="one of figures, reports, everything")


def declared(options: Any = None) -> Iterator[tuple[str, Option, Any]]:
    """All options with their values, by the names of their fields; by default with their default values."""
    options = EvaluateOptions() if options is None else options
    found = _options(options.__class__)
    for one in fields(options):
        value = getattr(options, one.name)
        if one.name in found:
            yield one.name, found[one.name], value
        elif is_dataclass(value):
            yield from declared(value)


def _check(settings: Any) -> None:
    """Raise UserError where one of them is no value of its option: in Python, too, they are made by users."""
    for _, it, value in declared(settings):
        it.value(value, value)
        if it.minimum is not None and value < it.minimum:
            raise UserError(f"{it.flag} {value}: must be {it.minimum} or more")


def from_typed(typed: Mapping[str, Any], base: Any = None) -> Any:
    """`EvaluateOptions`, or others like `base`, from what the command line gave, by the names of their fields.

    Parameters
    ----------
    base
        What others are; None: the defaults. Several that may be repeated are added to those of `base`.

    Raises
    ------
    UserError
        A text that is no value of its option.
    """
    base = base or EvaluateOptions()
    return _changed(base, {name: it.value(typed[name], before) for name, it, before in declared(base) if name in typed})


def words(options: Any) -> list[str]:
    """What to type for these options, but for robot and estimator; nothing for what is at its default."""
    out: list[str] = []
    for (_, it, value), (_, _, default) in zip(declared(options), declared(type(options)()), strict=True):
        if value != default:
            out += [it.flag] if it.typed is bool else [word for text in it.texts(value) for word in (it.flag, text)]
    return out


def again(start: Iterable[str | Path], options: EvaluateOptions) -> str:
    """The command that repeats a run, which begins so."""
    return shlex.join(["onboard-estimation", *map(path_word, start), *words(options)])


def recorded(options: EvaluateOptions) -> dict[str, Any]:
    """The options for `run.json`, by the names of their fields; a rate without a limit as it is typed."""
    values = {name: value for name, it, value in declared(options) if it.is_recorded}
    return {
        name: "all" if value == math.inf else str(value) if isinstance(value, Path) else value
        for name, value in values.items()
    }


def recalled(record: Mapping[str, Any]) -> EvaluateOptions:
    """The options that `recorded` gave, from JSON.

    Raises
    ------
    KeyError
        An option that is not there.
    """

    def value(it: Option, told: Any) -> Any:
        if it.typed == Path | None and told is not None:
            return Path(told)
        return tuple(told) if isinstance(told, list) else math.inf if it.read is _rate and told == "all" else told

    return _changed(EvaluateOptions(), {name: value(it, record[name]) for name, it, _ in declared() if it.is_recorded})


def _changed(options: Any, values: Mapping[str, Any]) -> Any:
    """With other values; each goes to all fields of its name, those of the dataclasses within it too."""
    inner = {one.name: part for one in fields(options) if is_dataclass(part := getattr(options, one.name))}
    changed = {name: _changed(part, values) for name, part in inner.items()}
    own = {one.name: values[one.name] for one in fields(options) if one.name in values}
    return replace(options, **changed, **own)
