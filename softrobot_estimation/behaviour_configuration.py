"""Parameters of a soft robot that `identify` finds in recordings, and of the filters that run on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onboard_estimation.configuration import parameter


@dataclass(frozen=True)
class BehaviourConfiguration:
    """How the robot departs from the nominal segment; the defaults are a nominal robot's."""

    bending_stiffening_per_rad2: float = parameter(
        0.0,
        "share by which stiffness grows with the square of a small bending, and levels off; below 0 it falls",
        unit="1/rad^2",
    )
    pressure_stiffening_per_100_kpa: float = parameter(
        0.0, "share by which stiffness in bending grows with the sum of the pressures", unit="1/(100 kPa)"
    )
    anisotropy: float = parameter(
        0.0, "share by which it is stiffer about y, and softer about x", minimum=-0.5, maximum=0.5
    )
    rest_bending_rad: tuple[float, float] = parameter(
        (0.0, 0.0), "bending towards x and y that it has by itself, without pressure and weight", unit="rad"
    )
    rest_elongation_m: float = parameter(0.0, "what it is longer than its nominal length", unit="m")
    bending_damping_ratio: float = parameter(
        0.08, "as a share of critical damping, straight", exclusive_minimum=0.0, maximum=2.0
    )
    bending_damping_growth_per_rad2: float = parameter(
        0.0, "share by which damping grows with the square of the angle", unit="1/rad^2", minimum=0.0
    )
    axial_damping_ratio: float = parameter(0.12, "as a share of critical damping", exclusive_minimum=0.0, maximum=2.0)
    chamber_gains: tuple[float, ...] = parameter(
        (1.0, 1.0, 1.0), "force of each chamber by its nominal one", exclusive_minimum=0.0
    )
    moment_gain: float = parameter(
        1.0, "what all chambers bend more than their places and areas say", exclusive_minimum=0.0
    )
    chambers_turned_deg: float = parameter(
        0.0, "about the base's z from where they should be", unit="deg", minimum=-45.0, maximum=45.0
    )
    pressure_offsets_pa: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "what each transducer reads at no pressure", unit="Pa"
    )
    supply_lag_s: float = parameter(
        0.02, "time constant of hose and chamber, behind the transducer", unit="s", exclusive_minimum=0.0
    )
    relaxation_shares: tuple[float, float] = parameter(
        (0.1, 0.1), "of the stiffness that fades after a deformation: fast and slow", minimum=0.0, maximum=2.0
    )
    relaxation_times_s: tuple[float, float] = parameter(
        (0.2, 3.0), "in which each of them fades", unit="s", exclusive_minimum=0.0
    )
    inertia_share: float = parameter(
        0.1545,
        "of the soft part's mass that moves as if it were at the tip: an arc has the inertia of a clamped beam with it",
        minimum=0.0,
        maximum=0.9,
    )
    load_share: float = parameter(
        0.0872, "the same for the load on the base: that of a clamped beam's first mode", minimum=0.0, maximum=0.9
    )

    def faults(self) -> Iterable[str]:
        """Shares that fade in the wrong order."""
        fast, slow = self.relaxation_times_s
        if fast >= slow:
            yield f"relaxation_times_s: {fast:g} s and {slow:g} s; the fast one comes first"


@dataclass(frozen=True)
class FilterConfiguration:
    """What the filters `ukf` and `marginalized_pf` count on; `train` tunes what says so."""

    moment_stddev_n_m: float = parameter(
        0.008, "of bending moments that no equation has: hysteresis, shape (tuned)", unit="N m", exclusive_minimum=0.0
    )
    moment_time_s: float = parameter(0.3, "in which they change", unit="s", exclusive_minimum=0.0)
    bending_rate_noise_rad_s_sqrt_s: float = parameter(
        1.0, "white noise of the bending's acceleration", unit="rad/s/sqrt(s)", exclusive_minimum=0.0
    )
    elongation_rate_noise_m_s_sqrt_s: float = parameter(
        0.3, "the same of the elongation's", unit="m/s/sqrt(s)", exclusive_minimum=0.0
    )
    stiffness_walk_sqrt_s: float = parameter(
        0.005, "random walk of the stiffness's logarithm, `ukf` only (tuned)", unit="1/sqrt(s)", minimum=0.0
    )
    stiffness_spread: float = parameter(
        0.1, "standard deviation of the stiffness's logarithm at the start", exclusive_minimum=0.0
    )
    force_stddev_n: float = parameter(
        0.05,
        "of the wrench beside the model's: noise, and what the model has not (tuned)",
        unit="N",
        exclusive_minimum=0.0,
    )
    torque_stddev_n_m: float = parameter(0.002, "the same of its torques (tuned)", unit="N m", exclusive_minimum=0.0)
    twist_stddev_n_m: float = parameter(
        0.004, "the same of the torque about the base's z: an arc does not twist", unit="N m", exclusive_minimum=0.0
    )
    force_walk_n_sqrt_s: float = parameter(
        0.02, "random walk of the sensor's offset, drift and wrong shape", unit="N/sqrt(s)", exclusive_minimum=0.0
    )
    torque_walk_n_m_sqrt_s: float = parameter(
        0.002, "the same of its torques (tuned)", unit="N m/sqrt(s)", exclusive_minimum=0.0
    )
    rest_moment_stddev_n_m: float = parameter(
        0.008,
        "of a bending moment that it always has: moulded bent, or tilted (tuned)",
        unit="N m",
        exclusive_minimum=0.0,
    )
    payload_walk_kg_sqrt_s: float = parameter(
        0.002, "random walk of a payload at the tip; it may come at any time", unit="kg/sqrt(s)", minimum=0.0
    )
    payload_stddev_kg: float = parameter(0.003, "of a payload at the start", unit="kg", exclusive_minimum=0.0)
    place_stddev_m: float = parameter(
        0.0005, "of the tip's place for a pose that is known: no robot is quite an arc", unit="m", minimum=0.0
    )
    place_share: float = parameter(
        0.06, "and as a share of how far the tip is off the base's z (tuned)", minimum=0.0, maximum=1.0
    )
    stiffness_share: float = parameter(
        0.12, "of the stiffness, beside what is estimated: it is known against moments of pressures alone", minimum=0.0
    )


@dataclass(frozen=True)
class LearningConfiguration:
    """What `marginalized_pf` learns of the stiffness, a Gaussian process of bending and elongation, and how."""

    model: str = parameter("", "file of a stiffness that was learned before, by `train`; empty: from nothing")
    particles: int = parameter(500, "how many", minimum=50, maximum=20000)
    functions: int = parameter(40, "basis functions of the stiffness", minimum=4, maximum=400)
    kernel: str = parameter(
        "squared_exponential", "of the Gaussian process", choices=("squared_exponential", "matern_3_2", "matern_5_2")
    )
    half_width_rad: float = parameter(
        1.4, "of the box over bending; beyond it nothing is learned", unit="rad", exclusive_minimum=0.0
    )
    half_width_m: float = parameter(
        0.1, "of the box over elongation, about that of half the largest pressure", unit="m", exclusive_minimum=0.0
    )
    length_scale_rad: float = parameter(0.4, "over which stiffness changes", unit="rad", exclusive_minimum=0.0)
    length_scale_m: float = parameter(0.1, "the same over elongation", unit="m", exclusive_minimum=0.0)
    deviation_share: float = parameter(
        0.15, "standard deviation of the stiffness about its mean, as a share", exclusive_minimum=0.0, maximum=1.0
    )
    noise_share: float = parameter(
        0.3, "of that again, from one instant to the next, to begin with", exclusive_minimum=0.0, maximum=2.0
    )
    sample_weight: float = parameter(
        0.02,
        "how much each step's sample counts: those of some 50 steps err alike",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    memory_s: float = parameter(60.0, "after which what was learned is forgotten", unit="s", exclusive_minimum=0.0)
    hyper_parameters: bool = parameter(False, "learn scale and length of the kernel, too: four times the work")
    seed: int = parameter(1, "of all random numbers", minimum=0)
