"""Runs of soft robots as a laboratory hands them over: folders of tables, with what it knows beforehand.

A run's folder holds `robot.yaml`, `pressure.csv.gz`, `wrench.csv.gz` and, where they were recorded,
`pressure_command.csv.gz`, `truth_tip.csv.gz` and `truth_base.csv.gz`. The README of the set `unknown_soft_robot` says
what their columns mean. Tables may be without compression (`.csv`).

The bag gets a file with the robot's configuration beside its messages. What motion capture tells of the base is not in
it: an estimator has to do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError, said_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording, Series, truth_channel
from onboard_estimation.contract.converters import Converted
from onboard_estimation.contract.laboratory_files import (
    POSE_COLUMNS,
    Table,
    faulty,
    mapping,
    number,
    numbers,
    read_table,
    refuse_other_time,
    said_of_unread,
    said_to_be_simulated,
    sequence,
    text,
)
from softrobot_estimation.model.configuration import (
    WRENCH,
    SoftRobotConfiguration,
    pressure_channel,
    pressure_command_channel,
)

_BODIES = ("tip", "base")
_WRENCH_COLUMNS = ("fx", "fy", "fz", "tx", "ty", "tz")

# Numbers in robot.yaml, and what they are called here. Those of the first table have to be there.
_OF_THE_ROBOT = {
    "robot.length_m": "segment.length_m",
    "robot.diameter_m": "segment.diameter_m",
    "robot.mass_kg": "segment.mass_kg",
    "robot.tip_plate_thickness_m": "segment.tip_plate_thickness_m",
    "robot.tip_plate_mass_kg": "segment.tip_plate_mass_kg",
    "robot.gravity_m_s2": "gravity_m_s2",
    "chambers.centre_radius_m": "chambers.centre_radius_m",
    "chambers.area_m2": "chambers.area_m2",
    "chambers.pressure_max_pa": "chambers.pressure_max_pa",
    "nominal_stiffness.bending_nm_per_rad": "stiffness.bending_n_m_per_rad",
    "nominal_stiffness.axial_n_per_m": "stiffness.axial_n_per_m",
    "force_torque_sensor.angle_about_base_z_deg": "wrench.angle_about_base_z_deg",
}
_OF_DATA_SHEETS = {
    "force_torque_sensor.rate_hz": "wrench.rate_hz",
    "force_torque_sensor.resolution_force_n": "wrench.force_resolution_n",
    "force_torque_sensor.resolution_torque_nm": "wrench.torque_resolution_n_m",
    "force_torque_sensor.noise_force_n": "wrench.force_stddev_n",
    "force_torque_sensor.noise_torque_nm": "wrench.torque_stddev_n_m",
    "pressure_sensors.rate_hz": "pressure.rate_hz",
    "pressure_sensors.noise_pa": "pressure.noise_pa",
    "pressure_sensors.offset_pa_typical": "pressure.offset_stddev_pa",
    "motion_capture.rate_hz": "truth.rate_hz",
    "motion_capture.noise_m": "truth.position_stddev_m",
    "motion_capture.noise_deg": "truth.orientation_stddev_deg",
}
_CROSSTALK = "force_torque_sensor.crosstalk_percent"
# Texts in robot.yaml: what they are called here, and their values by what the text says.
_TEXTS = {
    "robot.attitude": ("mounting.attitude", {"hanging": "hanging", "upright": "upright", "standing": "upright"}),
    "force_torque_sensor.sign": (
        "wrench.sign",
        {
            "load of the robot on the sensor": "robot_on_sensor",
            "load of the sensor on the robot": "sensor_on_robot",
        },
    ),
    "force_torque_sensor.zeroed": (
        "wrench.tare",
        {"without the robot": "without_robot", "with the robot": "with_robot"},
    ),
}
# Said in words for people.
_FOR_PEOPLE = {"nominal_stiffness.note", "pressure_sensors.at", "motion_capture.stamps"}

_SETTLED_S = 1.0  # of no commanded pressure, until a robot hangs still
_BEYOND_RANGE = 1.5  # times the largest pressure: more is another unit


def read_unknown_soft_robot(path: Path, as_recorded: bool = False) -> Converted:
    """Runs of soft robots of unknown build: a folder with robot.yaml and tables.

    Pressures become absolute (standard atmosphere added), set points, wrench and motion capture stay as they are, the
    capture's stamps too, which are late by an unknown delay. What robot.yaml says becomes a configuration file in the
    bag's folder. Rows that are not finite are left out and counted, rows out of order are sorted.

    Raises
    ------
    UserError
        No such folder, a table or an entry that is missing or no number, another number of chambers in one file than in
        another, other units, stamps of one table outside of another's.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"{path} is no folder; a run is a folder with robot.yaml and tables of its sensors")
    configuration, notes = read_configuration(path)
    columns = tuple(f"p{number}" for number in range(1, configuration.chambers.count + 1))
    wanted = {"pressure": columns, "wrench": _WRENCH_COLUMNS, "pressure_command": columns}
    wanted |= {f"truth_{body}": POSE_COLUMNS for body in _BODIES}
    tables = {name: table for name, its in wanted.items() if (table := read_table(path, name, its)) is not None}
    for name in ("pressure", "wrench"):
        if name not in tables:
            raise UserError(f"{path} has no {name}.csv.gz: an estimator runs on pressures and wrench")
    for name, table in tables.items():
        _refuse_other_robot(path / name, table, tables["pressure"], configuration.chambers.pressure_max_pa)
    pressures, wrench, commands = tables["pressure"], tables["wrench"], tables.get("pressure_command")
    truth = {body: tables[f"truth_{body}"] for body in _BODIES if f"truth_{body}" in tables}
    notes += [note for table in tables.values() for note in table.notes]
    notes.append(f"Pressures are absolute: {configuration.pressure.ambient_pa:g} Pa were added to the gauge pressures.")
    notes += _said_of_commands(wrench, commands, configuration)
    notes += _said_of_truth(truth)
    if as_recorded:
        notes.append("Nothing of such a run is mended: --as-recorded changes nothing.")
    simulated = said_to_be_simulated(path)
    sensors = [Series(WRENCH, wrench.stamps_ns, wrench.values)]
    for place, chamber in enumerate(configuration.chambers.names):
        for channel, table in ((pressure_channel, pressures), (pressure_command_channel, commands)):
            if table is not None:
                absolute = table.values[:, [place]] + configuration.pressure.ambient_pa
                sensors.append(Series(channel(chamber), table.stamps_ns, absolute))
    return Converted(
        recording=Recording(
            tuple(sensors),
            tuple(Series(truth_channel(body), table.stamps_ns, table.values) for body, table in truth.items()),
        ),
        epoch_ns=0,
        notes=(*notes, *simulated),
        counts={"chambers": configuration.chambers.count},
        simulated=bool(simulated),
        configurations={"softrobot": configuration},
    )


def read_configuration(path: Path) -> tuple[SoftRobotConfiguration, list[str]]:
    """What robot.yaml in a folder says, and sentences on what it does not say or nobody reads.

    Raises
    ------
    UserError
        robot.yaml is missing, or an entry of it is missing, no number or of another meaning, or not as many.
    """
    file = path / "robot.yaml"
    robot = mapping(file)
    if robot is None:
        raise UserError(f"{path} has no robot.yaml, which says how long the robot is and where its chambers are")
    for section, content in robot.items():
        if not isinstance(content, Mapping):
            raise faulty(file, f"{section} is {content!r}, no section with names and values")
    angles = sequence(file, robot, "chambers.angles_deg")
    count = robot.get("chambers.count", len(angles))
    if count != len(angles):
        raise faulty(file, f"chambers.count is {count!r}, and chambers.angles_deg has {len(angles)}")
    values: dict[str, Any] = {
        "chambers.names": [f"chamber_{place}" for place in range(1, len(angles) + 1)],
        "behaviour.chamber_gains": [1.0] * len(angles),
        "behaviour.pressure_offsets_pa": [0.0] * len(angles),
        "chambers.angles_deg": numbers(file, robot, "chambers.angles_deg", len(angles), "robot.yaml"),
        "wrench.origin_in_base_m": numbers(file, robot, "force_torque_sensor.origin_in_base_m", 3, "robot.yaml"),
    }
    values |= {ours: number(file, robot, theirs) for theirs, ours in _OF_THE_ROBOT.items()}
    values |= {ours: number(file, robot, theirs) for theirs, ours in _OF_DATA_SHEETS.items() if theirs in robot}
    values |= {ours: _meaning(file, robot, theirs, known) for theirs, (ours, known) in _TEXTS.items()}
    if _CROSSTALK in robot:
        values["wrench.crosstalk_fraction"] = 0.01 * number(file, robot, _CROSSTALK)
    with said_of(file):
        configuration = load(SoftRobotConfiguration, values)
    notes = said_of_unread(file, robot, _FOR_PEOPLE)
    if unsaid := [name for name in (*_OF_DATA_SHEETS, _CROSSTALK) if name not in robot]:
        notes.append(f"robot.yaml does not say {', '.join(unsaid)}: softrobot.yaml has usual values.")
    return configuration, notes


def _meaning(file: Path, entries: Mapping[str, Any], name: str, known: Mapping[str, str]) -> str:
    said = text(file, entries, name)
    meanings = {meaning for words, meaning in known.items() if words in said.lower()}
    if len(meanings) != 1:
        raise faulty(file, f"{name} is {said!r}; it must say one of: {', '.join(known)}")
    return meanings.pop()


def _refuse_other_robot(file: Path, table: Table, pressures: Table, pressure_max_pa: float) -> None:
    """UserError where a table's stamps or pressures cannot be of this run."""
    refuse_other_time(file, table, pressures, "pressures")
    largest = float(np.abs(table.values).max())
    if file.name.startswith("pressure") and largest > _BEYOND_RANGE * pressure_max_pa:
        raise UserError(
            f"{file}: it reads up to {largest:.4g}, and robot.yaml has at most {pressure_max_pa:g} Pa; the columns "
            "must be gauge pressures in Pa"
        )


def _said_of_commands(wrench: Table, commands: Table | None, configuration: SoftRobotConfiguration) -> list[str]:
    """What the sensor reads while nothing is commanded, beside what the robot's mass says."""
    if commands is None:
        return ["There are no set points of the pressures."]
    busy = commands.stamps_ns[(commands.values != 0.0).any(axis=1)]
    before = np.searchsorted(busy, wrench.stamps_ns, side="right") - 1
    start = int(commands.stamps_ns[0])
    last_busy = np.where(before >= 0, busy[before], start) if len(busy) else np.full(len(before), start)
    resting = wrench.stamps_ns - last_busy > _SETTLED_S * NANOSECONDS_PER_SECOND
    if not resting.any():
        return ["The robot never rests: the set points are never zero for a second."]
    read, said = (
        " ".join(f"{round(part, 2) + 0.0:.2f}" for part in force.tolist())  # never -0.00
        for force in (np.median(wrench.values[resting, :3], axis=0), configuration.resting_force_in_sensor_n)
    )
    return [f"At rest ({int(resting.sum())} samples) the sensor reads {read} N; mass and mounting say {said} N."]


def _said_of_truth(truth: Mapping[str, Table]) -> list[str]:
    notes = []
    if truth:
        notes.append("Stamps of the motion capture are those of arrival, later than its exposure by an unknown delay.")
    if missing := [body for body in _BODIES if body not in truth]:
        notes.append(f"There is no motion capture of {', '.join(missing)}.")
    if "base" in truth:
        notes.append("Motion capture of the base is ground truth only: softrobot.yaml has the mounting as robot.yaml.")
    return notes
