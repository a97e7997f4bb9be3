"""Parameters of an estimator's node beside those of its robot: known to all that read its parameter file."""

from __future__ import annotations

from dataclasses import dataclass

from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.ros.transforms import AUTOMATIC


@dataclass(frozen=True)
class EstimatorHost:
    """What the node itself wants to know, beside the robot's configuration."""

    estimator: str = parameter("", 'which of the robot\'s estimators; "" for its first')
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of all frames but world; "auto": the node\'s namespace')
    world_to_map_m_rad: tuple[float, float, float, float, float, float] = parameter(
        (0.0,) * 6, "static transform from world to map: x, y, z, roll, pitch, yaw", unit="m, rad"
    )
    publish_tf: bool = parameter(True, "publish world -> map -> odom -> base_link and base_link -> first body")
    initial_from_truth: bool = parameter(
        False, "wait for the ground truth of all bodies and start from it, with the configured covariance"
    )
    reliable_sensors: bool = parameter(
        False,
        "have readings sent again that did not come, as far as their publisher keeps them (the last 5000, of ours); "
        "nothing comes from one that offers best effort only",
    )
    output_rate_hz: float = bounded(
        100.0,
        0.0,
        10000.0,
        "odometry, state and what else has an estimate in it go out at most so often; 0: with every estimate",
        "Hz",
    )
    rests_between_outputs: bool = parameter(
        True, "let readings gather until something is to go out, which saves much of a processor; not for reliable ones"
    )
    longest_event_delay_s: float = bounded(
        0.01, 0.0, 1.0, "of a robot with phases: so long readings gather at most, for events are as much later", "s"
    )
    diagnostics_period_s: float = bounded(1.0, 0.1, 60.0, "time between two reports on /diagnostics", "s")
    waiting_period_s: float = bounded(5.0, 0.5, 60.0, "time between two sentences on what the node waits for", "s")
