"""Sessions of what reads small files: trajectories, models, calibrations, parameters, descriptions of devices.

Each through the function that commands and nodes read it by; what is read is finite, within its bounds, and in order.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.fuzzing import Draw, Session, Target, reason
from drivers.calibration.logs import ImuLog, read_log, read_sections
from drivers.calibration.parameter_file import ImuCalibration, load_calibration
from drivers.ethercat.configuration import EthercatConfiguration
from drivers.ethercat.description import parse, shipped
from drivers.ethercat.device import Conversion, conversion_of, dtype_of
from drivers.motion_capture.optitrack_client import OptitrackConfiguration
from hopper_estimation.estimators.filters import load_filters
from hopper_estimation.model.configuration import HopperConfiguration
from onboard_estimation.base.configuration import load, to_mapping
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.parameter_file import to_yaml
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.learning import model_file
from onboard_estimation.trajectories.files import format_of, read_trajectory
from onboard_estimation.trajectories.trajectory import Trajectory, as_record
from salp_estimation.estimators.paper_filter import read_model
from salp_estimation.estimators.residual_model import Population, ResidualModel, chain_hash
from salp_estimation.model.configuration import SalpConfiguration
from softrobot_estimation.estimators.filter_model import FilterModel
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from thruster_chain_estimation.model import inertial_layout, parameter_layout
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

_ROOT = Path(__file__).parents[2]
_LONGEST_MESSAGE = 20_000


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """In memory, where there is some."""
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


class File(Session):
    """A file of that name, read, and what is said against what came."""

    def __init__(self, name: str, seeds: list[bytes], read: Callable[[Path], Any], is_text: bool = True) -> None:
        self.seeds, self._read, self.is_text = seeds, read, is_text
        self._path = Path(_folder().name) / name
        self.longest = 2**16

    def take(self, data: bytes) -> str:
        """Refused, or read and as it should be."""
        self._path.write_bytes(data)
        said = ""
        try:
            check_numbers(self._read(self._path))
        except UserError as error:
            said = str(error)
        assert len(said) < _LONGEST_MESSAGE, "a message that fills the screen"
        return f"refused: {reason(said)}" if said else "read"


def check_numbers(found: Any) -> None:
    """All numbers of a result are finite, at any depth."""
    if isinstance(found, np.ndarray):
        assert found.dtype.kind not in "fc" or np.isfinite(found).all(), "numbers that are not finite"
    elif isinstance(found, float):
        assert np.isfinite(found), "a number that is not finite"
    elif isinstance(found, dict):
        for one in found.values():
            check_numbers(one)
    elif isinstance(found, (tuple, list)):
        for one in found:
            check_numbers(one)
    elif hasattr(found, "__dataclass_fields__"):
        check_numbers({name: getattr(found, name) for name in found.__dataclass_fields__})


# Trajectories.

_STAMPS_NS = [1_767_225_600_000_000_001 + 100_000_000 * k for k in range(12)]
_NAMES = "time_s,x_m,y_m,z_m,qx,qy,qz,qw"
_FORMS = ("tum", "tum_ns", "openvins", "euroc", "kitti", "csv", "csv;", "motive", "vicon")


def trajectory(number: int) -> Session:
    """In each of the forms that are read, told by name and first lines, or by their option."""
    form = _FORMS[number % len(_FORMS)]
    name = "a.csv" if form in ("csv", "csv;", "motive", "vicon", "euroc") else "a.txt"
    told = form.rstrip(";") if number // len(_FORMS) % 2 else None

    def read(path: Path) -> None:
        stamps_ns = np.array(_STAMPS_NS)
        found = read_trajectory(path, told or format_of(path), stamps_ns=stamps_ns, body="left" if told else None)
        check_trajectory(found)

    return File(name, [trajectory_text(form).encode()], read)


def check_trajectory(one: Trajectory) -> None:
    """As its class says it is."""
    assert len(one.stamps_ns) == len(one.poses) > 0
    assert (np.diff(one.stamps_ns) > 0).all()
    assert np.abs(one.stamps_ns.astype(np.float64)).max() <= 2.0**63 - 2048
    assert np.isfinite(one.poses).all()
    assert np.abs(one.poses[:, :3]).max() <= _FARTHEST_M, "positions beyond what a robot reaches"
    assert np.abs(np.linalg.norm(one.poses[:, 3:], axis=1) - 1.0).max() < 1e-6
    space, record, _ = as_record(one, "planar" if one.planar else "pose" if one.turns else "position")
    assert record.covariances.shape == (len(one.poses), space.dimension, space.dimension)
    assert not np.isinf(record.covariances).any()
    assert all(note.isprintable() and len(note) < 2000 for note in one.notes)


_FARTHEST_M = 1e8


def trajectory_text(form: str) -> str:
    """A dozen poses."""
    turns = Rotation.from_rotvec(np.outer(np.arange(12), [0.01, 0.02, 0.1]))
    places = np.outer(np.arange(12), [0.1, 0.05, 0.01])
    poses = np.hstack([places, turns.as_quat()])
    stamps = [f"{ns // 10**9}.{ns % 10**9:09d}" for ns in _STAMPS_NS]
    values, separator = poses, "," if form in ("csv", "csv;", "euroc") else " "
    if form in ("tum_ns", "euroc"):
        stamps = list(map(str, _STAMPS_NS))
    if form == "euroc":
        values = poses[:, [0, 1, 2, 6, 3, 4, 5]]
    elif form == "openvins":
        values = np.hstack([poses, np.tile([1e-4, 0.0, 0.0, 4e-4, 0.0, 9e-4, 1.0, 0.1, 0.2, 2.0, 0.3, 3.0], (12, 1))])
    elif form == "kitti":
        values, stamps = np.concatenate([turns.as_matrix(), places[:, :, None]], axis=2).reshape(-1, 12), [""] * 12
    rows = [
        separator.join([*filter(None, [stamp]), *map(repr, row)])
        for stamp, row in zip(stamps, values.tolist(), strict=True)
    ]
    if form == "motive":
        heads = ["Type" + 7 * ",Rigid Body", "Name" + 7 * ",left", 4 * ",Rotation" + 3 * ",Position"]
        lines = [f"{k},{0.1 * k:.6f},{','.join(map(repr, row))}" for k, row in enumerate(np.roll(poses, 4, 1).tolist())]
        first = "Format Version,1.23,Capture Start Time,2001-09-09 01.46.40.25 PM,Rotation Type,Quaternion"
        top = [f"{first},Length Units,Millimeters", "", *(f",{one}" for one in heads)]
        return "\n".join([*top, "Frame,Time (Seconds),X,Y,Z,W,X,Y,Z", *lines])
    if form == "vicon":
        values = np.hstack([turns.as_rotvec(degrees=True), 1e3 * places])
        lines = [f"{k},0,{','.join(map(repr, row))}" for k, row in enumerate(values.tolist(), 1)]
        axes, units = "Frame,Sub Frame,RX,RY,RZ,TX,TY,TZ", ",,deg,deg,deg,mm,mm,mm"
        return "\n".join(["Objects", "100", ",,left,,,,,", axes, units, *lines, ""])
    text = "\n".join([_NAMES, *rows] if form.startswith("csv") else rows)
    return text.replace(",", ";").replace(".", ",") if form == "csv;" else text


# Models.


class ModelFile(File):
    """An archive of arrays, whose checksums are put right, or a text of numbers."""

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """Of each entry the checksum, where it is and in the directory."""
        if self.is_text:
            return data
        changed, at, directory = bytearray(data), 0, data.find(b"PK\1\2")
        while (at := data.find(b"PK\3\4", at)) >= 0 and at + 30 <= len(data) and directory >= 0:
            size, name, extra = *struct.unpack_from("<I", data, at + 22), *struct.unpack_from("<HH", data, at + 26)
            start = at + 30 + name + extra
            checksum = struct.pack("<I", zlib.crc32(data[start : start + size]))
            changed[at + 14 : at + 18] = checksum
            changed[directory + 16 : directory + 20] = checksum
            at, directory = at + 4, data.find(b"PK\1\2", directory + 4)
        return bytes(changed)


@cache
def _models() -> list[tuple[str, bytes, Callable[[Path], Any]]]:
    """Small files of each robot that has one, and what reads it."""
    path = Path(_folder().name) / "seed.npz"
    chain, soft, salp = load(ThrusterChainConfiguration), load(SoftRobotConfiguration), load(SalpConfiguration)
    count, hashes = chain.chain.count, ("ab" * 32,)
    sizes = len(inertial_layout.lasting(count)), len(parameter_layout.lasting(count))
    Calibration(*(Moments(np.zeros(one), np.eye(one)) for one in sizes)).save(path, chain, ("a",), hashes, 10.0)
    found: list[tuple[str, bytes, Callable[[Path], Any]]]
    found = [("a.npz", path.read_bytes(), lambda one: Calibration.load(one, chain))]
    FilterModel({"ukf": {"wrench.force_stddev_n": 0.1}}, None).save(path, soft, ("a",), hashes, 10.0, np.zeros((1, 3)))
    found += [("a.npz", path.read_bytes(), lambda one: FilterModel.load(one, soft))]
    salp_model(salp).save(path)
    found += [("a.npz", path.read_bytes(), lambda one: vars(read_model(one)))]
    found += [
        ("a.json", (_ROOT / "config" / "hopper_filters.json").read_bytes(), lambda one: load_filters(one).entries)
    ]
    header, _ = model_file.load(path)
    model_file.save(path, header, {"weights": np.ones((2, 3)), "groups": np.arange(2), "empty": np.empty((0, 4))})
    return [*found, ("a.npz", path.read_bytes(), model_file.load)]


def salp_model(configuration: SalpConfiguration) -> ResidualModel:
    """Of three links, without processes."""
    from salp_estimation.model.friction_kernels import parameter_count

    size, links = parameter_count(3), configuration.chain.link_names
    population = Population(
        np.full(size, 0.1), 1e-4 * np.eye(size), np.ones(size), *np.full((3, 5), 0.02), np.full(3, 0.1)
    )
    conditions = model_file.TrainingConditions(5.0, 1.0, 5, ("made",), ("",), ("0" * 64,), (-1.0,) * 5, (1.0,) * 5)
    inputs, units = ("alpha_1", "alpha_2", "u_1", "u_2", "u_3"), ("rad", "rad", "m/s", "m/s", "m/s")
    outputs = tuple(f"rate_{i}" for i in range(5)), ("m/s", "m/s", "rad/s", "rad/s", "rad/s")
    sensors = tuple(f"imu/{name}" for name in links)
    header = model_file.ModelHeader(
        "local", "salp", sensors, chain_hash(configuration), inputs, units, *outputs, conditions, "0"
    )
    return ResidualModel(header, population, None, np.array([[0.003, 0.06]] * 3))


def model(number: int) -> Session:
    """Of one robot."""
    name, seed, read = _models()[number % len(_models())]
    return ModelFile(name, [seed, *[without_checksum(seed)] * 3], read, name.endswith("json"))


@cache
def without_checksum(data: bytes) -> bytes:
    """As an older version wrote it: changes come past what guards it as a whole."""
    if not data.startswith(b"PK"):
        return json.dumps({name: one for name, one in json.loads(data).items() if name != "checksum"}).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(made, "w") as part:
        for info in whole.infolist():
            if info.filename != "checksum.npy":
                part.writestr(info, whole.read(info))
    return made.getvalue()


# Calibrations of sensors, parameters, descriptions.


def calibration(number: int) -> Session:
    """A parameter file of one sensor; a table of readings; its sections."""
    log = _table_log()
    if number % 3 == 0:
        return File("a.csv", [_table()], lambda path: check_log(read_log(path)["imu"]))
    if number % 3 == 1:
        text = (
            b'{"x_p": {"start": 10, "end": 60}, "x_a": {"start_s": 1.5, "end_s": 1.7}, "z_rot": {"start": 5, "end": 9}}'
        )
        return File("a.json", [text], lambda path: read_sections(path, log))
    return File("a.yaml", [to_yaml(to_mapping(ImuCalibration())).encode()], check_calibration)


def check_calibration(path: Path) -> ImuCalibration:
    """Readings come out as numbers."""
    found = load_calibration(path)
    assert np.isfinite(found.apply(np.array([0.1, 0.2, 0.3, 1.0, 2.0, 9.8]))).all(), "readings that are no numbers"
    return found


def check_log(found: ImuLog | UserError) -> ImuLog:
    """Times rise, from zero."""
    if isinstance(found, UserError):
        raise found
    assert (np.diff(found.time_s) > 0.0).all()
    assert found.period_s > 0.0
    return found


def _table() -> bytes:
    head = "time_s,acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z"
    rows = [f"{0.01 * k:.2f},0.1,0.2,{9.8 + 0.001 * (k % 3)},0.01,-0.02,{0.001 * (k % 5)}" for k in range(220)]
    return "\n".join([head, *rows]).encode()


@cache
def _table_log() -> ImuLog:
    path = Path(_folder().name) / "whole.csv"
    path.write_bytes(_table())
    return check_log(read_log(path)["imu"])


_CONFIGURATIONS = (
    *(SalpConfiguration, ThrusterChainConfiguration, HopperConfiguration, SoftRobotConfiguration),
    *(EthercatConfiguration, OptitrackConfiguration),
)


def parameters(number: int) -> Session:
    """A group of a parameter file: of whole ones YAML costs most of the time."""
    kind = _CONFIGURATIONS[number % len(_CONFIGURATIONS)]
    return File("a.yaml", _groups(kind), lambda path: load(kind, path))


@cache
def _groups(kind: type) -> list[bytes]:
    content = to_mapping(load(kind))
    return [to_yaml({"/**": {"ros__parameters": {group: values}}}).encode() for group, values in content.items()]


def device_description(number: int) -> Session:
    """A shipped description of an EtherCAT device, in place of the makers' ESI, or one of a single field."""
    text = list(shipped().values())[number % len(shipped())].read_text() if number % 4 == 0 else _DESCRIPTION
    text = "\n".join(line.partition(" #")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
    return File("a.yaml", [text.encode()], check_description)


_DESCRIPTION = """
name: small
vendor_id: 0x2
product_ids: [0xbbc]
inputs:
- pdo: 0x1A00
  entries:
  - {index: 0x6000, subindex: 1, type: uint16, field: status_1}
  - {index: 0x6000, subindex: 17, type: int16, field: voltage_1, scale: volts}
outputs: [{pdo: 0x1600, entries: [{index: 0x7000, type: uint32, field: control, initial: 3}]}]
scales: {volts: {factor: 3.0e-4, offset: {index: 0x8000, subindex: 1, type: float32, expected: 1.5}, unit: V}}
startup: [{index: 0x8000, subindex: 6, type: uint8, value: 1, why: filter}]
status: [{field: status_1, mask: 64, level: error, meaning: open wire}]
"""


def check_description(path: Path) -> Conversion:
    """Process data are laid out, and numbers come out of them."""
    found = parse(path.read_bytes(), path.name)
    inputs, outputs = dtype_of(found.input_entries), dtype_of(found.output_entries)
    record = np.zeros(1, outputs)
    for entry in found.output_entries:
        if entry.field:
            record[entry.field] = entry.initial
    conversion = conversion_of(found, found.fields, lambda one: one.expected if one.expected is not None else 1.0)
    check_numbers(conversion(np.zeros(2, inputs)))
    return conversion


_BASE = "onboard_estimation/base"
TARGETS = {
    "trajectory": Target(trajectory, ("onboard_estimation/trajectories/[ceflt]*.py",)),
    "model": Target(
        model,
        (
            *("onboard_estimation/learning/model_file.py", f"{_BASE}/configuration.py"),
            *("hopper_estimation/estimators/filters.py", "salp_estimation/estimators/residual_model.py"),
            "softrobot_estimation/estimators/filter_model.py",
            "thruster_chain_estimation/model/calibration.py",
        ),
    ),
    "calibration": Target(
        calibration, ("drivers/calibration/[lp]*.py", f"{_BASE}/configuration.py", f"{_BASE}/parameter_file.py")
    ),
    "parameters": Target(parameters, (f"{_BASE}/configuration.py", f"{_BASE}/parameter_file.py")),
    "device_description": Target(
        device_description,
        ("drivers/ethercat/description.py", "drivers/ethercat/device.py", f"{_BASE}/parameter_file.py"),
    ),
}
