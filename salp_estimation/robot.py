"""The chain as a robot of the suite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Limit, Matrix
from onboard_estimation.base.series import imu_channel, set_pose_channel
from onboard_estimation.contract.description import Hinge, Shape, Shapes, link_shapes, links_urdf
from onboard_estimation.contract.observed import Observable
from onboard_estimation.contract.reported import Drawn, Reported
from onboard_estimation.contract.reproduced import Reproduced
from onboard_estimation.contract.robot import TruthSpecification, offline
from onboard_estimation.contract.simulated import Scenario, SimulatedLive, Simulation, WithGaits
from onboard_estimation.contract.trained import Identified, Smoothed, Trained
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering.planar import planar_pose, planar_poses
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.pipeline.reading_limits import imu_limits
from salp_estimation.estimators.estimator import SalpEstimator
from salp_estimation.model.configuration import PAPER, RESIDUAL_FORMS, SUPERSEDED, SalpConfiguration
from salp_estimation.model.gaits import GAITS, SETTLE_S
from salp_estimation.simulation import simulator

if TYPE_CHECKING:
    from salp_estimation.estimators.paper_filter import PaperFilter
    from salp_estimation.estimators.residual_estimator import ResidualEstimator
    from salp_estimation.estimators.residual_smoother import ResidualSmoother


_BODY, _PIN = (0.94, 0.28, 0.12), (0.11, 0.18)
"""See `link_shapes`: boxes are shorter than links, so that the joints are seen."""
_WHEEL_WIDTH = 0.5
"""Of a wheel, as a share of its radius."""


class SalpRobot(
    SimulatedLive[SalpConfiguration],
    Drawn[SalpConfiguration],
    StartedFromTruth[SalpConfiguration],
    Smoothed[SalpConfiguration],
    Trained[SalpConfiguration],
    Reported[SalpConfiguration],
    Identified[SalpConfiguration],
    WithGaits[SalpConfiguration],
    Observable[SalpConfiguration],
    Reproduced[SalpConfiguration],
):
    """LandSalp and other planar chains with one gyro per link."""

    name = "salp"
    summary = "planar chain of links with omniwheels, one gyro each: pose and joint angles"
    settle_s = SETTLE_S
    recovery_s = 3.0
    configuration_type = SalpConfiguration
    configuration_file = "config/salp.yaml"
    estimators = ("ukf",)
    run_time_parameters = ("gyro", "process", "gate_probability", "recover_after")
    model_parameter = "residual_model"
    real_rates = "hardware"
    training_forms = (*RESIDUAL_FORMS, PAPER)
    paper = "landsalp"
    observability_title = "Observability of the joint angles"
    scenarios: Mapping[str, Scenario] = {
        "ideal": Scenario("the quasi-static model with white noise on gyros and motion capture", tuple(GAITS)),
        "hardware": Scenario(
            "dry friction, harness, lag, gyro biases, vibration, jitter: drawn anew for each seed", tuple(GAITS)
        ),
        "foreign": Scenario(
            "the same and what no estimator has a term for: slope, dust, ripple, links that bend, ...", tuple(GAITS)
        ),
    }

    def channels(self, configuration: SalpConfiguration) -> tuple[Channel, ...]:
        """Commands, one IMU per link, and poses given from outside."""
        chain = configuration.chain
        gyro = imu_limits(gyro=(configuration.gyro.range_rad_s, "gyro.range_rad_s"), accelerometer=None)
        remedy = "the robot is not like those that its residual model was trained with: train it anew, with this one"
        if not configuration.residual_model:
            remedy = (
                "train a model of this robot (onboard-estimation train salp BAG... --output MODEL), or raise "
                f"process.link_rate_error_rad_s, now {configuration.process.link_rate_error_rad_s:g}"
            )
        imus = (
            replace(imu_channel(name, gyro, needs=("angular_velocity",)), remedy=remedy) for name in chain.link_names
        )
        largest, wheels = configuration.largest_wheel_speed_rad_s, len(chain.link_names)
        wheel_speed = Limit("wheel speed", 0, wheels, largest, "rad/s", "largest_wheel_speed_rad_s")
        commands = replace(simulator.command_channel(chain), limits=(wheel_speed,))
        return (commands, *imus, set_pose_channel())

    def estimator(self, configuration: SalpConfiguration, name: str) -> SalpEstimator | ResidualEstimator | PaperFilter:
        """The unscented filter; where the configuration names a trained model, the filter that its form is for."""
        if configuration.residual_model:
            # Gaussian processes and what they need: nodes without a residual model do without.
            from salp_estimation.estimators.paper_filter import PaperFilter, PaperModel, load_trained
            from salp_estimation.estimators.residual_estimator import ResidualEstimator

            model = load_trained(configuration.residual_model, configuration)
            if isinstance(model, PaperModel):
                return PaperFilter(configuration, model)
            return ResidualEstimator(configuration, model)
        return SalpEstimator(configuration)

    def exercise(self, configuration: SalpConfiguration, estimator: str) -> None:
        """And what a start in doubt needs, which readings of zero leave in none."""
        super().exercise(configuration, estimator)
        space = configuration.chain.build().space()
        space.right_jacobian(np.zeros(space.dimension))

    def smoother(self, configuration: SalpConfiguration, name: str) -> ResidualSmoother:
        """That of the filter with a residual model; UserError without one."""
        if not configuration.residual_model:
            raise UserError(
                "--smooth: the smoother of the salp is that of its filter with a residual model; "
                "name one with --model FILE, as `train salp` writes it"
            )
        from salp_estimation.estimators.paper_filter import PaperModel, load_trained  # offline only: nodes do without
        from salp_estimation.estimators.residual_smoother import ResidualSmoother

        model = load_trained(configuration.residual_model, configuration)
        if isinstance(model, PaperModel):
            raise UserError(
                f"--smooth: a model of the form {PAPER} has no smoother: name another one with --model FILE"
            )
        return ResidualSmoother(configuration, model)

    def initial_covariance(self, configuration: SalpConfiguration) -> Matrix:
        """As the paper sets it: 1 cm, 5 deg, 5 deg."""
        if configuration.residual_model:
            from salp_estimation.estimators.paper_filter import PaperModel, load_trained
            from salp_estimation.estimators.residual_estimator import initial_covariance

            if not isinstance(load_trained(configuration.residual_model, configuration), PaperModel):
                return initial_covariance(configuration)
        return configuration.initial_covariance()

    def truth_specification(self, configuration: SalpConfiguration) -> TruthSpecification:
        """Poses of all links; the noise of pose and joint angles follows from theirs."""
        return TruthSpecification(configuration.chain.link_names, "none", configuration.true_covariances())

    def true_parts(
        self, configuration: SalpConfiguration, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Pose of the base frame and joint angles from the poses of the links."""
        links = np.stack([planar_pose(bodies[name]) for name in configuration.chain.link_names], axis=1)
        states = configuration.chain.build().state_from_links(links)
        return {"pose": states[:, :3], "joint_angles": states[:, 3:]}

    def outline(
        self, configuration: SalpConfiguration, space: StateSpace, means: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Polyline through the ends of the links."""
        states = np.hstack([means[:, space.coordinates("pose")], means[:, space.coordinates("joint_angles")]])
        return configuration.chain.build().outline(states)

    def body_poses(
        self, configuration: SalpConfiguration, space: StateSpace, means: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Poses of the links, at their centres, x along the link."""
        states = np.hstack([means[:, space.coordinates("pose")], means[:, space.coordinates("joint_angles")]])
        poses = configuration.chain.build().link_poses(states)
        placed = planar_poses(poses[..., :2], poses[..., 2])
        return {name: placed[:, i] for i, name in enumerate(configuration.chain.link_names)}

    def body_shapes(self, configuration: SalpConfiguration) -> Shapes:
        """Links as boxes, joints as pins at their front ends, wheels as discs in their driven direction.

        In the frames at the centres of the links. What the configuration does not say is drawn in proportion to the
        links and the wheels.
        """
        chain = configuration.chain
        radius = chain.wheel_radius_m
        size = (2.0 * radius, 2.0 * radius, _WHEEL_WIDTH * radius)
        # A cylinder's axis is z; a wheel's axle is its frame's y axis, x being the driven direction.
        wheels = [
            Shape("cylinder", size, (x, y, 0.0), (0.5 * math.pi, 0.0, math.radians(angle)), "wheel")
            for x, y, angle in zip(chain.wheel_x_m, chain.wheel_y_m, chain.wheel_angles_deg, strict=True)
        ]
        return link_shapes(chain.link_names, chain.link_lengths_m, _BODY, _PIN, wheels)

    report_sections = offline("salp_estimation.judging.observability:report_sections")
    """How well the gyros saw the joint angles, as the paper's figure 8; nothing without commands."""

    observed = offline("salp_estimation.judging.observed_run:observed_run")
    """How well the gyros saw the joint angles."""

    metrics = offline("salp_estimation.training.references:reference_figures")
    """Errors of the joint angles beside those of a chain assumed straight, and the like."""

    observability_report = offline("salp_estimation.judging.observed_run:JointReport")
    """Joint by joint, gait by gait."""

    notes = offline("salp_estimation.training.report:notes")
    """What was better than the filter, which model there was, and how much of the run lies outside its data."""

    check_model = offline("onboard_estimation.learning.model_file:load", *RESIDUAL_FORMS, PAPER, SUPERSEDED)
    train = offline("salp_estimation.training.report:train_salp")
    """A residual model: friction, harness and lag of the population, and Gaussian processes where they help."""

    reproduce = offline("salp_estimation.paper.reproduction:reproduce")
    """The paper's figures and numbers, with its own filter and ours."""

    def urdf(self, configuration: SalpConfiguration) -> str:
        """The chain, `link_1` as its root, so that `base_link` -> `link_1` stays the estimator's.

        Frames of the links lie at their centres, as everywhere else here, but a URDF joint turns the frame that it
        carries: so each joint carries a frame `<link>_hinge` at the link's rear end, and the link hangs on it. Joints
        are named as in `joint_states`.
        """
        chain = configuration.chain
        names = chain.build().space().block("joint_angles").names
        limits = np.deg2rad([chain.joint_lower_deg, chain.joint_upper_deg]).tolist()
        hinges = [Hinge(*joint) for joint in zip(names, *limits, chain.joint_drag, strict=True)]
        return links_urdf(self.name, chain.link_names, chain.link_lengths_m, hinges, self.body_shapes(configuration))

    def simulation(
        self,
        configuration: SalpConfiguration,
        scenario: str,
        variant: str,
        rng: np.random.Generator,
        imu_rate_hz: float = 0.0,
    ) -> Simulation:
        """A gait in one of the scenarios, designed for chains other than LandSalp; UserError where none is found."""
        from salp_estimation.model.gait_design import gait_for  # estimating nodes do without SciPy

        gait = gait_for(configuration.chain, variant)
        if scenario in ("hardware", "foreign"):
            from salp_estimation.simulation.foreign_effects import foreign_scenario  # estimating nodes do without
            from salp_estimation.simulation.hardware_scenario import hardware_scenario
            from salp_estimation.simulation.hardware_simulator import HardwareSimulation

            hardware = hardware_scenario()
            if imu_rate_hz > 0.0:
                hardware = replace(hardware, gyro=replace(hardware.gyro, rate_hz=imu_rate_hz))
            foreign = foreign_scenario() if scenario == "foreign" else None
            return HardwareSimulation(configuration.chain, gait.controls, rng, hardware, foreign)
        magnitudes = simulator.IdealScenario()
        if imu_rate_hz > 0.0:
            magnitudes = replace(magnitudes, gyro_rate_hz=imu_rate_hz)
        return simulator.SalpSimulation(configuration.chain, gait, rng, magnitudes)

    gait = offline("salp_estimation.model.gait_report:gait_report")
    """The gait of simulations, or one designed as asked for."""

    identification_channels = offline("salp_estimation.training.runs:identification_channels")
    """The wheels' measured effort: it gives the drag's common scale."""

    identify = offline("salp_estimation.training.identified:identify")
    """Drag of wheels and joints from commands and motion capture."""


ROBOT = SalpRobot()
