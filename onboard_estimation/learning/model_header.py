"""What a file of a learned model says about itself: for which robot and sensors, from which data, by which version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from onboard_estimation.errors import UserError

FORMAT_VERSION = 1


@dataclass(frozen=True)
class TrainingConditions:
    """The data that a model was trained with.

    Attributes
    ----------
    rate_hz
        Of the training points.
    duration_s
        Of all runs together.
    point_count
        Number of training points.
    runs
        Names of the runs, e.g. file names of bags.
    gaits
        Of each run; empty where it is not known.
    hashes
        SHA-256 of each run's data, hexadecimal.
    input_lowest, input_highest
        Covered range of each input, in its unit.
    """

    rate_hz: float
    duration_s: float
    point_count: int
    runs: tuple[str, ...]
    gaits: tuple[str, ...]
    hashes: tuple[str, ...]
    input_lowest: tuple[float, ...]
    input_highest: tuple[float, ...]


@dataclass(frozen=True)
class ModelHeader:
    """Header of a model.

    Attributes
    ----------
    kind
        Of model, e.g. the form of a salp's residual model.
    robot
        Name of the robot, as on the command line.
    sensors
        Names of the sensors whose residuals were learned, in the order of the outputs.
    configuration_hash
        Of the robot's configuration, by whoever trains.
    input_names, input_units, output_names, output_units
        One for each input (d,) and output (m,).
    training
        The data.
    package_version
        Of this package, when the model was trained.
    created_utc
        ISO 8601.
    format_version
        Of the file.
    """

    kind: str
    robot: str
    sensors: tuple[str, ...]
    configuration_hash: str
    input_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]
    training: TrainingConditions
    package_version: str
    created_utc: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    format_version: int = FORMAT_VERSION

    def as_dict(self) -> dict[str, Any]:
        """As plain numbers, texts, lists and names, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str) -> ModelHeader:
        """The header of `as_dict`, checked.

        Parameters
        ----------
        where
            Start of error messages.

        Raises
        ------
        UserError
            Another format version, a name too few or too many, a wrong type, or lists that do not fit together.
        """
        found = content.get("format_version")
        if found != FORMAT_VERSION:
            raise UserError(
                f"{where}: format version {found}, this program reads {FORMAT_VERSION}; train it anew, or use version "
                f"{content.get('package_version', 'unknown')} of onboard_estimation, which wrote it"
            )
        training = content.get("training")
        if not isinstance(training, dict):
            raise UserError(f"{where}: the header does not say what it was trained with; train it anew")
        conditions = TrainingConditions(**_checked(TrainingConditions, training, f"{where}: training"))
        header = cls(**_checked(cls, {**content, "training": conditions}, where))
        inputs, runs = len(header.input_names), len(conditions.runs)
        lengths = {
            "input_units": (len(header.input_units), inputs),
            "output_units": (len(header.output_units), len(header.output_names)),
            "input_lowest": (len(conditions.input_lowest), inputs),
            "input_highest": (len(conditions.input_highest), inputs),
            "hashes": (len(conditions.hashes), runs),
        }
        wrong = [f"{name} {has}, not {needed}" for name, (has, needed) in lengths.items() if has != needed]
        if wrong:
            raise UserError(f"{where}: numbers of values that do not fit together: {'; '.join(wrong)}; train it anew")
        return header

    def require(self, robot: str, sensors: tuple[str, ...], configuration_hash: str, where: str) -> None:
        """UserError if the model was trained for another robot, other sensors, or another configuration."""
        if self.robot != robot:
            raise UserError(f"{where}: trained for the robot {self.robot}, not for {robot}; train one for it")
        if self.sensors != sensors:
            raise UserError(
                f"{where}: trained for the sensors {', '.join(self.sensors) or 'none'}, there are "
                f"{', '.join(sensors) or 'none'}; train it with a recording of these"
            )
        if self.configuration_hash != configuration_hash:
            raise UserError(
                f"{where}: trained for another configuration of {robot} (hash {self.configuration_hash[:12]}, here "
                f"{configuration_hash[:12]}): its residuals are those of other parameters. Use that configuration, or "
                "train it anew"
            )


def _checked(kind: type[Any], content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Arguments for a dataclass of texts, numbers and tuples of them, from JSON."""
    types = {entry.name: str(entry.type) for entry in fields(kind)}
    if set(types) != set(content):
        missing, unknown = sorted(set(types) - set(content)), sorted(set(content) - set(types))
        raise UserError(f"{where}: the header lacks {missing} and has {unknown} too many; train it anew")
    values: dict[str, Any] = {}
    for name, wanted in types.items():
        value = content[name]
        values[name] = tuple(value) if isinstance(value, list) else value
        if not _fits(values[name], wanted):
            raise UserError(f"{where}: {name} in the header is {str(value)[:60]!r}, not {wanted}; train it anew")
    return values


def _fits(value: object, wanted: str) -> bool:
    if wanted.startswith("tuple["):
        inner = wanted.removeprefix("tuple[").partition(",")[0]
        return isinstance(value, tuple) and all(_fits(item, inner) for item in value)
    if wanted == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) if wanted == "str" else isinstance(value, TrainingConditions)
