"""Runs of thruster-driven chains as a laboratory hands them over: folders of tables, with what it knows beforehand.

A run's folder holds `robot.yaml` and `run.yaml` (what is known before), `thrusters.csv.gz`, `imu_<link>.csv.gz`, and,
where it was found out afterwards, `truth_<link>.csv.gz` and `truth_parameters.yaml`. The README of the set
`unknown_thruster_chain` says what their columns mean. Tables may be without compression (`.csv`).

The bag gets a file with the robot's configuration beside its messages, which `evaluate` takes by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError, said_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording, Series, imu_channel, truth_channel
from onboard_estimation.contract import laboratory_files as files
from onboard_estimation.contract.converters import Converted
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration, ToleranceConfiguration
from thruster_chain_estimation.model.space import centre_of_mass, command_channel, true_parameters_channel

CAPTURE_LATE_S = 0.005
"""By the data sheet of the motion capture: its stamps are those of arrival."""

_WEIGHED = ("mass_kg", "inertia_about_com_kg_m2")
_WEIGHED_AFTER = ("mass_after_kg", "inertia_about_com_after_kg_m2")
_IMU = ("gx", "gy", "gz", "ax", "ay", "az")
# Names in robot.yaml, and what they are called here.
_OTHERS = {
    "thruster_limit_N": "thruster.limit_n",
    "thruster_time_constant_s": "thruster.time_constant_s",
    "joint_travel_deg": "chain.joint_travel_deg",
    "imu_rate_hz": "imu.rate_hz",
    "gravity_m_s2": "gravity_m_s2",
}
# Said for people, or found out afterwards of what nothing is judged on.
_FOR_PEOPLE = {"thruster_command_rate_hz", "motion_capture_rate_hz", "seconds", "number_of_links"}
_UNJUDGED = {
    f"links.{name}"
    for name in (
        "com_offset_m",
        "thruster_place_m",
        "thruster_angle_rad",
        "thruster_gain",
        "thruster_gain_reverse",
        "thruster_time_constant_s",
        "length_m",
        "imu_place_m",
        "imu_mounting_rotation_vector_rad",
        "imu_clock_offset_s",
        "imu_clock_drift_ppm",
        "gyro_bias_at_start_rad_s",
        "gyro_bias_at_end_rad_s",
        "accelerometer_bias_m_s2",
    )
}
_INITIAL_HEADING_STDDEV_RAD = 0.005  # 0.2 deg of a frame and 0.2 deg of the bodies' alignment, data sheet
# By the data sheets of the motion capture and of the IMUs: 500 deg/s, 4 g.
_DATA_SHEETS = {
    "gyro.range_rad_s": 8.7266,
    "accelerometer.range_m_s2": 39.24,
    "truth.position_stddev_m": 3e-4,
    "truth.heading_stddev_deg": 0.2,
    "truth.alignment_stddev_deg": 0.2,
}
# Half to twice gravity: a resting accelerometer in m/s^2 reads inside, one in g or counts does not.
_PLAUSIBLE_FORCE_M_S2 = (5.0, 20.0)


def read_unknown_chain(path: Path, as_recorded: bool = False) -> Converted:
    """Runs of thruster-driven chains of unknown build: a folder with robot.yaml, run.yaml and tables.

    Commands, IMUs, motion capture, and what was weighed afterwards. The capture's stamps are moved back by its latency
    (5 ms by its data sheet), unless left as recorded. What robot.yaml and run.yaml say becomes a configuration file in
    the bag's folder, which `evaluate` uses. Rows that are not finite are left out and counted, rows out of order are
    sorted.

    Raises
    ------
    UserError
        No such folder, a table or an entry that is missing or no number, another number of links in one file than in
        another, other units.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"{path} is no folder; a run is a folder with robot.yaml, run.yaml and tables of its sensors")
    configuration, notes = read_configuration(path)
    names = configuration.chain.link_names
    commands = files.read_table(path, "thrusters", tuple(f"u{link}" for link in range(1, len(names) + 1)))
    if commands is None:
        raise UserError(f"{path} has no thrusters.csv.gz: without commands there is nothing to learn the masses from")
    _refuse_other_count(path, names)
    imus = _of_all_links(path, "imu", names, _IMU)
    if missing := [f"imu_{name}.csv.gz" for name in names if name not in imus]:
        raise UserError(f"{path} has no {', '.join(missing)}; robot.yaml has {len(names)} links: {', '.join(names)}")
    for name, table in imus.items():
        _refuse_other_units(path / f"imu_{name}", table, commands)
    sensors = [Series(command_channel(names), commands.stamps_ns, commands.values)]
    sensors += [Series(imu_channel(name), table.stamps_ns, table.values) for name, table in imus.items()]
    notes += [note for table in (commands, *imus.values()) for note in table.notes]
    truth, truth_notes = _truth(path, names, int(commands.stamps_ns[0]), as_recorded)
    simulated = files.said_to_be_simulated(path)
    return Converted(
        recording=Recording(tuple(sensors), tuple(truth)),
        epoch_ns=0,
        notes=(*notes, *truth_notes, *simulated),
        counts={"links": len(names)},
        simulated=bool(simulated),
        configurations={"thruster_chain": configuration},
    )


def read_configuration(path: Path) -> tuple[ThrusterChainConfiguration, list[str]]:
    """What robot.yaml and run.yaml in a folder say, and sentences on it.

    Raises
    ------
    UserError
        robot.yaml is missing, or an entry of one of them is missing or no number, or the links are not as many.
    """
    robot = files.mapping(path / "robot.yaml")
    if robot is None:
        raise UserError(f"{path} has no robot.yaml, which says how many links there are and how long they are")
    links = [_link(path / "robot.yaml", entry) for entry in files.sequence(path / "robot.yaml", robot, "links")]
    stated = robot.get("number_of_links", len(links))
    if stated != len(links):
        raise files.faulty(path / "robot.yaml", f"number_of_links is {stated!r}, and links has {len(links)}")
    about = str(robot.get("inertia_about", "centre of mass"))
    if "centre of mass" not in about and "center of mass" not in about:
        raise files.faulty(
            path / "robot.yaml", f"inertia_about is {about!r}; it must be the centre of mass of the link"
        )
    values: dict[str, Any] = {f"chain.{name}": [link[name] for link in links] for name in links[0]}
    tolerances = robot.get("tolerances") or {}
    if not isinstance(tolerances, Mapping):
        raise files.faulty(path / "robot.yaml", f"tolerances is {tolerances!r}, no names with values")
    known = [one.name for one in fields(ToleranceConfiguration) if one.name in tolerances]
    values |= {f"tolerances.{name}": tolerances[name] for name in known}
    values |= {ours: robot[theirs] for theirs, ours in _OTHERS.items() if theirs in robot}
    values |= _DATA_SHEETS
    started, notes = _initial(path, values["chain.link_names"], values["chain.masses_kg"])
    # Faults are said as of the file that they are in.
    with said_of(path / "robot.yaml"):
        configuration = load(ThrusterChainConfiguration, values | started)
    notes += files.said_of_unread(path / "robot.yaml", robot, _FOR_PEOPLE)
    notes += [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in configuration.chain.unobservable()]
    return configuration, notes


def _link(file: Path, entry: Any) -> dict[str, Any]:
    """An entry of `links` in robot.yaml, by the names that `ChainConfiguration` has for it."""
    if not isinstance(entry, Mapping):
        raise files.faulty(file, f"an entry of links is {entry!r}, no mapping with name, length_m, thruster and imu")
    name = files.text(file, entry, "name")
    if not all(character.isalnum() or character == "_" for character in name):
        raise files.faulty(file, f"a link is named {name!r}; names of links have letters, digits and _ only")
    thruster, imu = (_part(file, entry, what, name) for what in ("thruster", "imu"))
    if (aligned := imu.get("orientation", "aligned_with_link")) != "aligned_with_link":
        raise files.faulty(file, f"orientation of the IMU of {name} is {aligned!r}; only aligned_with_link is known")
    link = {
        "link_names": name,
        "link_lengths_m": files.number(file, entry, "length_m", name),
        "masses_kg": files.number(file, entry, "nominal_mass_kg", name),
        "inertias_kg_m2": files.number(file, entry, "nominal_inertia_kg_m2", name),
        "thruster_angles_rad": files.number(file, thruster, "angle_rad", f"thruster of {name}"),
    }
    link["thruster_x_m"], link["thruster_y_m"] = files.numbers(file, thruster, "place_m", 2, f"thruster of {name}")
    link["imu_x_m"], link["imu_y_m"] = files.numbers(file, imu, "place_m", 2, f"IMU of {name}")
    return link


def _part(file: Path, entry: Mapping[str, Any], what: str, name: str) -> Mapping[str, Any]:
    if not isinstance(part := entry.get(what), Mapping):
        raise files.faulty(file, f"{name} has no {what} with place_m")
    return part


def _of_all_links(path: Path, what: str, names: tuple[str, ...], columns: tuple[str, ...]) -> dict[str, files.Table]:
    """The tables `<what>_<link>` that there are."""
    tables = {name: files.read_table(path, f"{what}_{name}", columns) for name in names}
    return {name: table for name, table in tables.items() if table is not None}


def _of_links(file: Path, entries: Mapping[str, Any], what: str, names: Sequence[str]) -> list[Mapping[str, Any]]:
    """The entries of a list that has one with the name of each link, in the order of these."""
    found = files.sequence(file, entries, what)
    named = {str(entry.get("name")): entry for entry in found if isinstance(entry, Mapping)}
    if len(found) != len(names) or not named.keys() >= set(names):
        links = f"{len(names)} links ({', '.join(names)})"
        raise files.faulty(file, f"{what} has {len(found)} entries ({', '.join(named)}), and robot.yaml {links}")
    return [named[name] for name in names]


def _initial(path: Path, names: list[str], masses_kg: list[float]) -> tuple[dict[str, Any], list[str]]:
    """Parameters of the initial state from run.yaml, and sentences on it."""
    file, values, notes = path / "run.yaml", dict[str, Any]({"initial.headings_rad": [0.0] * len(names)}), []
    run = files.mapping(file)
    if run is None:
        return values, ["There is no run.yaml: the first poses are not known."]
    if "robot_at_rest_until_s_at_least" in run:
        values["initial.rest_s"] = files.number(file, run, "robot_at_rest_until_s_at_least")
    if "initial_poses" in run:
        entries = zip(names, _of_links(file, run, "initial_poses", names), strict=True)
        poses = np.array([files.numbers(file, one, "x_y_heading", 3, f"first pose of {name}") for name, one in entries])
        middle = centre_of_mass(poses[None, :, :2], np.array(masses_kg))[0]
        values |= {
            "initial.given": True,
            "initial.headings_rad": poses[:, 2].tolist(),
            "initial.position_m": [round(float(part), 6) for part in middle],
            "initial.heading_stddev_rad": _INITIAL_HEADING_STDDEV_RAD,
        }
    else:
        notes.append("run.yaml has no initial_poses: the first poses are not known.")
    if unused := run.get("thruster_not_used"):
        notes.append(f"The thruster of {unused} was left unused.")
    return values, notes + files.said_of_unread(file, run, {"start_stamp_ns", *_FOR_PEOPLE})


def _refuse_other_count(path: Path, names: tuple[str, ...]) -> None:
    """Raise UserError where there are tables of links that robot.yaml does not have."""
    for what in ("imu", "truth"):
        there = {file.name.partition(".")[0].removeprefix(f"{what}_") for file in path.glob(f"{what}_*.csv*")}
        if others := [f"{what}_{name}" for name in sorted(there - set(names))]:
            has = f"{path} has tables {', '.join(others)}, and robot.yaml only"
            raise UserError(f"{has} {len(names)} links: {', '.join(names)}")


def _refuse_other_units(file: Path, table: files.Table, commands: files.Table) -> None:
    """Raise UserError where an accelerometer does not read m/s^2, or stamps have nothing to do with the commands'."""
    force, (low, high) = float(np.median(np.linalg.norm(table.values[:, 3:], axis=1))), _PLAUSIBLE_FORCE_M_S2
    if not low < force < high:
        would_be = f"m/s^2 would be between {low:g} and {high:g}"
        raise files.faulty(file, f"the accelerometer reads {force:.3g} in the median; {would_be}")
    files.refuse_other_time(file, table, commands, "commands")


def _truth(path: Path, names: tuple[str, ...], start_ns: int, as_recorded: bool) -> tuple[list[Series], list[str]]:
    """Motion capture and weighed parameters where they are there, and sentences on them."""
    file, late_s = path / "truth_parameters.yaml", CAPTURE_LATE_S
    found = files.mapping(file)
    series, notes = list[Series](), list[str]()
    if found is not None:
        if "motion_capture_late_s" in found:
            late_s = files.number(file, found, "motion_capture_late_s")
        weighed, notes = _weighed(file, found, names, start_ns)
        series.append(weighed)
        notes += files.said_of_unread(file, found, _FOR_PEOPLE | _UNJUDGED)
    tables = _of_all_links(path, "truth", names, files.POSE_COLUMNS)
    late_ns = 0 if as_recorded else round(late_s * NANOSECONDS_PER_SECOND)
    for name, table in tables.items():
        series.append(Series(truth_channel(name), table.stamps_ns - late_ns, table.values))
        notes += table.notes
    if tables:
        moved = "left as recorded: those" if as_recorded else f"moved {late_s * 1e3:g} ms back: they are those"
        notes.append(f"Stamps of the motion capture {moved} of arrival.")
    if missing := [name for name in names if name not in tables]:
        notes.append(f"There is no motion capture of {', '.join(missing)}.")
    return series, notes


def _weighed(file: Path, found: files.Entries, names: tuple[str, ...], start_ns: int) -> tuple[Series, list[str]]:
    """Masses and inertias as weighed, from the start on and again from each change on, and sentences on them."""
    links = list(zip(names, _of_links(file, found, "links", names), strict=True))
    values = [np.array([files.number(file, one, what, name) for what in _WEIGHED for name, one in links])]
    at_s, notes = [0.0], ["Masses and inertias as weighed are on ground_truth/inertial_parameters."]
    changes = found.get("change", [])
    for change in changes if isinstance(changes, list) else [changes]:
        if not isinstance(change, files.Entries):
            raise files.faulty(file, f"change is {change!r}, no names with values")
        if (link := files.text(file, change, "link")) not in names:
            raise files.faulty(file, f"link of change is {link!r}; robot.yaml has {', '.join(names)}")
        at_s.append(files.number(file, change, "at_s_after_start", "change"))
        if at_s[-1] < at_s[-2]:
            raise files.faulty(file, f"at_s_after_start of change is {at_s[-1]:g}; it must be {at_s[-2]:g} or more")
        files.numbers(file, change, "com_offset_after_m", 2, "change")  # which moves no link's middle
        place, after = [names.index(link), len(names) + names.index(link)], values[-1].copy()
        after[place] = [files.number(file, change, name, "change") for name in _WEIGHED_AFTER]
        (mass_kg, inertia), (was_kg, was) = after[place], values[-1][place]
        to = f"{mass_kg:g} kg and {inertia:g} kg m^2, until then {was_kg:g} kg and {was:g} kg m^2"
        notes.append(f"From {at_s[-1]:g} s on {link} has {to}: so the ground truth says.")
        values.append(after)
    stamps = start_ns + np.round(np.array(at_s) * NANOSECONDS_PER_SECOND).astype(np.int64)
    return Series(true_parameters_channel(names), stamps, np.array(values)), notes
