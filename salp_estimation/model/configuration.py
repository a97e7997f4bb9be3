"""Parameters of the chain; the defaults are those of the real LandSalp robot (MODELS, published by a co-author)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.base.measurement import Matrix, Vector
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain

Axis = Literal["x", "y", "z", "-x", "-y", "-z"]
RESIDUAL_FORMS, PAPER, SUPERSEDED = ("calibrated", "local"), "paper", "gaussian_process"
"""Of residual models, see `residual_model`; of the model of the paper's own filter, see `paper_filter`."""

_DIAGONAL_DRAG = {"wheel_drag_xx": (0, 0), "wheel_drag_yy": (1, 1), "wheel_drag_tt": (2, 2)}
MIXED_DRAG = {"wheel_drag_xy": (0, 1), "wheel_drag_xt": (0, 2), "wheel_drag_yt": (1, 2)}
"""Parameters of a wheel's drag matrix, by row and column."""


@dataclass(frozen=True)
class ChainConfiguration:
    """Geometry and drag of N links."""

    link_names: tuple[str, ...] = parameter(
        ("link_1", "link_2", "link_3"),
        "names of the links in order, as in imu/<name>/data_raw and ground_truth/<name>/pose",
    )
    link_lengths_m: tuple[float, ...] = positive((0.272, 0.272, 0.272), "distance between the joints of each link", "m")
    wheel_radius_m: float = positive(0.041275, "radius of the omniwheels", "m")
    wheel_signs: tuple[float, ...] = parameter(
        (1.0, 1.0, 1.0),
        "1 where a positive wheel speed drives along the wheel frame's x axis, else -1",
        choices=(1.0, -1.0),
    )
    wheel_x_m: tuple[float, ...] = parameter((0.0140, 0.0128, 0.0140), "wheel centre in the link frame, x", unit="m")
    wheel_y_m: tuple[float, ...] = parameter((0.0091, -0.0107, 0.0091), "wheel centre in the link frame, y", unit="m")
    wheel_angles_deg: tuple[float, ...] = parameter(
        (-57.0, -130.0, -57.0), "rotation of the wheel frame in the link frame", unit="deg"
    )
    wheel_drag_xx: tuple[float, ...] = positive(
        (55.93911, 73.65501, 57.76067), "viscous drag along the driven direction", "N s/m"
    )
    wheel_drag_yy: tuple[float, ...] = positive(
        (42.72713, 86.92600, 23.29921), "viscous drag across the driven direction", "N s/m"
    )
    wheel_drag_tt: tuple[float, ...] = positive(
        (0.6726102, 0.7321637, 0.2602415), "viscous drag against turning", "N m s"
    )
    wheel_drag_xy: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0),
        "mixed elements of the symmetric drag matrix; all zero: none, of any number of links",
        unit="N s/m",
    )
    wheel_drag_xt: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "the same, of driven direction and turning", unit="N s"
    )
    wheel_drag_yt: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "the same, across it and of turning", unit="N s")
    joint_drag: tuple[float, ...] = non_negative((0.01154289, 0.01368611), "viscous drag of the joints", "N m s")
    joint_lower_deg: tuple[float, ...] = parameter((-120.0, -120.0), "lower limits of the joint angles", unit="deg")
    joint_upper_deg: tuple[float, ...] = parameter((120.0, 120.0), "upper limits of the joint angles", unit="deg")

    def faults(self) -> Iterable[str]:
        """Numbers of elements that do not fit the number of links, limits in the wrong order."""
        count = len(self.link_names)
        if count < 2:
            yield f"link_names: {count} links given, a chain needs 2 or more"
        if len(set(self.link_names)) != count:
            yield f"link_names: names must differ, got {', '.join(self.link_names)}"
        per_link = (
            "link_lengths_m wheel_signs wheel_x_m wheel_y_m wheel_angles_deg wheel_drag_xx wheel_drag_yy wheel_drag_tt"
        )
        for name in per_link.split():
            if len(getattr(self, name)) != count:
                yield f"{name}: {len(getattr(self, name))} values given, {count} links need {count}"
        mixed = [name for name in MIXED_DRAG if any(getattr(self, name)) and len(getattr(self, name)) != count]
        for name in mixed:
            yield f"{name}: {len(getattr(self, name))} values given, {count} links need {count}"
        if not mixed and len({count, *map(len, (self.wheel_drag_xx, self.wheel_drag_yy, self.wheel_drag_tt))}) == 1:
            bad = np.flatnonzero(np.linalg.eigvalsh(self.wheel_drag())[:, 0] <= 0.0)
            for wheel in bad:
                yield f"wheel_drag_*: that of {self.link_names[wheel]} is not positive definite: it would drive itself"
        for name in ("joint_drag", "joint_lower_deg", "joint_upper_deg"):
            if len(getattr(self, name)) != count - 1:
                yield f"{name}: {len(getattr(self, name))} values given, {count} links need {count - 1}"
        for joint, (lower, upper) in enumerate(zip(self.joint_lower_deg, self.joint_upper_deg, strict=False), 1):
            if not -180.0 <= lower < upper <= 180.0:
                limits = "need -180 <= lower < upper <= 180"
                yield f"joint_lower_deg, joint_upper_deg: joint {joint} has {lower} to {upper}, {limits}"

    @property
    def signed_wheel_radii_m(self) -> Vector:
        """(N,) rim speed along the wheel frame's x axis by wheel speed."""
        return self.wheel_radius_m * np.array(self.wheel_signs)

    def wheel_drag(self) -> NDArray[np.float64]:
        """(N, 3, 3) symmetric matrices d_i of eq. (3): N s/m, N s and N m s."""
        out = np.zeros((len(self.wheel_drag_xx), 3, 3))
        for name, (row, column) in {**_DIAGONAL_DRAG, **MIXED_DRAG}.items():
            if any(values := getattr(self, name)):
                out[:, row, column] = out[:, column, row] = values
        return out

    def build(self) -> Chain:
        """The model of this chain, a value."""
        return _built(self)


@lru_cache(maxsize=16)
def _built(chain: ChainConfiguration) -> Chain:
    links = np.zeros((len(chain.link_names), kernels.COLUMNS))
    links[:, kernels.LENGTH] = chain.link_lengths_m
    links[:, kernels.WHEEL_X], links[:, kernels.WHEEL_Y] = chain.wheel_x_m, chain.wheel_y_m
    links[:, kernels.WHEEL_ANGLE] = np.deg2rad(chain.wheel_angles_deg)
    links[:, kernels.DRAG : kernels.DRAG + 9] = chain.wheel_drag().reshape(-1, 9)
    links[:-1, kernels.JOINT_DRAG] = chain.joint_drag
    links[:-1, kernels.LOWER], links[:-1, kernels.UPPER] = np.deg2rad([chain.joint_lower_deg, chain.joint_upper_deg])
    return Chain(links)


@dataclass(frozen=True)
class GyroConfiguration:
    """One gyro on each link."""

    axis: Axis = parameter("z", "axis of the IMU that points up, with its sign")
    range_rad_s: float = positive(34.9, "readings beyond it (and 5 %) are refused; 2000 deg/s", "rad/s")
    noise_stddev_rad_s: float = positive(5e-3, "standard deviation of one sample's white noise", "rad/s")
    bias_walk_rad_s_sqrt_s: float = non_negative(
        5e-4, "random walk of the biases: a cheap gyro that warms up drifts by some mrad/s a minute", "rad/s/sqrt(s)"
    )
    scale_stddev: float = non_negative(0.01, "standard deviation of the scale factor, where no residual model is used")
    # More tell no more of the shape: what a model leaves out repeats itself, and would count as new each time.
    used_rate_hz: float = non_negative(
        20.0, "samples that come faster are left out by a filter with a residual model; 0: all are used", "Hz"
    )


@dataclass(frozen=True)
class ProcessConfiguration:
    """How far the chain may stray from the quasi-static model."""

    wheel_speed_noise_m_s_sqrt_hz: float = non_negative(
        1.1e-5, "density of the white noise on each wheel's rim speed", "m/s/sqrt(Hz)"
    )
    link_rate_error_rad_s: float = non_negative(
        0.1, "standard deviation of the error of a link's turning rate: dry friction, harness, lag", "rad/s"
    )
    body_speed_error_m_s: float = non_negative(
        0.014, "standard deviation of the error of the base's forward and sideways speed", "m/s"
    )
    creep_rad_s: float = non_negative(
        3e-3, "standard deviation of a link's turning rate while the wheels stand: harness and floor pull", "rad/s"
    )
    error_time_s: float = positive(0.5, "how long such an error lasts: its autocorrelation's integral", "s")
    longest_step_s: float = parameter(
        0.05,
        "longest integration step; gaps are bridged in steps of this",
        unit="s",
        exclusive_minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True)
class InitialConfiguration:
    """Standard deviations of the initial state (paper, section V-B); its mean is given by the user or the truth."""

    position_stddev_m: float = positive(0.01, "of x and y", "m")
    heading_stddev_deg: float = positive(5.0, "of the heading", "deg")
    joint_angle_stddev_deg: float = positive(5.0, "of each joint angle", "deg")
    wrong_start_probability: float = parameter(
        0.01,
        "that joint angles are four times further off, which a filter with a residual model finds out; 0: it does not",
        minimum=0.0,
        exclusive_maximum=0.5,
    )
    gyro_bias_stddev_rad_s: float = positive(0.01, "of each gyro's bias", "rad/s")


@dataclass(frozen=True)
class TruthConfiguration:
    """Noise of the motion capture, which the evaluation adds to the filter's covariance when it judges it."""

    position_stddev_m: float = non_negative(1e-4, "of a link's x and y", "m")
    heading_stddev_deg: float = non_negative(0.02, "of a link's heading", "deg")


@dataclass(frozen=True)
class SalpConfiguration:
    """All parameters of the pose-and-shape estimator."""

    chain: ChainConfiguration = ChainConfiguration()
    gyro: GyroConfiguration = GyroConfiguration()
    process: ProcessConfiguration = ProcessConfiguration()
    initial: InitialConfiguration = InitialConfiguration()
    truth: TruthConfiguration = TruthConfiguration()
    largest_wheel_speed_rad_s: float = positive(50.0, "commands beyond it (and 5 %) are refused", "rad/s")
    residual_model: str = parameter("", "file of a residual model made by `train`; empty: without one")
    gate_probability: float = parameter(
        0.997, "measurements less probable than one minus this are refused", exclusive_minimum=0.0, maximum=1.0
    )
    recover_after: int = parameter(
        20, "refusals in a row of one gyro until the covariance is inflated; 0: never", minimum=0
    )
    lag_s: float = non_negative(0.2, "how late a measurement may arrive and still be filtered in order", "s")

    def initial_covariance(self) -> Matrix:
        """(N + 2, N + 2) covariance of the initial state."""
        initial = self.initial
        joints = len(self.chain.link_names) - 1
        stddevs = [initial.position_stddev_m] * 2 + [np.deg2rad(initial.heading_stddev_deg)]
        stddevs += [np.deg2rad(initial.joint_angle_stddev_deg)] * joints
        return np.diag(np.square(stddevs))

    def true_covariances(self) -> dict[str, Matrix]:
        """Of the truth's pose (3, 3) and joint angles (N - 1, N - 1), by the noise of the links' poses."""
        count = len(self.chain.link_names)
        position, heading = self.truth.position_stddev_m**2, np.deg2rad(self.truth.heading_stddev_deg) ** 2
        # Neighbouring joint angles share the heading of the link between them.
        joints = heading * (2.0 * np.eye(count - 1) - np.eye(count - 1, k=1) - np.eye(count - 1, k=-1))
        return {"pose": np.diag([position, position, heading]) / count, "joint_angles": joints}
