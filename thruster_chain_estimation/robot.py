"""The thruster chain as a robot of the suite."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Estimate, Matrix, Measurement, Vector, neutral_value
from onboard_estimation.contract.description import Hinge, Shape, Shapes, link_shapes, links_urdf
from onboard_estimation.contract.observed import Observable
from onboard_estimation.contract.reported import Drawn
from onboard_estimation.contract.reproduced import Reproduced
from onboard_estimation.contract.robot import TruthSpecification, offline
from onboard_estimation.contract.simulated import Scenario, SimulatedLive, Simulation
from onboard_estimation.contract.trained import Smoothed, Trained
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering.planar import planar_pose, planar_poses
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.pipeline.estimator import Estimator
from onboard_estimation.pipeline.pipeline import Pipeline
from thruster_chain_estimation.estimators.gyros import GyrosEstimator
from thruster_chain_estimation.estimators.paper_estimator import PaperEstimator
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator
from thruster_chain_estimation.judging.information import assumed_chain
from thruster_chain_estimation.judging.observability import observed_now
from thruster_chain_estimation.model import calibration, space
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

if TYPE_CHECKING:
    from thruster_chain_estimation.estimators.robust_smoother import RobustSmoother


_ESTIMATORS: Mapping[str, Callable[[ThrusterChainConfiguration], Estimator[Any]]] = {
    "robust": RobustEstimator,
    "paper_ukf": PaperEstimator,
    "gyros": GyrosEstimator,
}
_PAPERS = ("physical", "paper", "physical_2_off", "paper_2_off")
_LABORATORY = ("mixed", "one_off")
_EXERCISE_STEPS = 100
_BODY, _PIN = (0.94, 0.22, 0.12), (0.09, 0.18)
_FAN_LENGTH, _FAN_DIAMETER = 0.2, 0.12
"""All as shares of the length of the link."""


class ThrusterChainRobot(
    SimulatedLive[ThrusterChainConfiguration],
    Drawn[ThrusterChainConfiguration],
    StartedFromTruth[ThrusterChainConfiguration],
    Smoothed[ThrusterChainConfiguration],
    Trained[ThrusterChainConfiguration],
    Observable[ThrusterChainConfiguration],
    Reproduced[ThrusterChainConfiguration],
):
    """Planar chain of links with inertia, a thruster and an IMU on each."""

    name = "thruster_chain"
    summary = "planar chain of links with thrusters, one IMU each: headings, masses and inertias"
    configuration_type = ThrusterChainConfiguration
    configuration_file = "config/thruster_chain.yaml"
    estimators = tuple(_ESTIMATORS)
    model_parameter = "calibration"
    training_forms = ("calibration",)
    observability_title = "Observability of masses and inertias"
    learns_without_truth = True
    paper = "multilink"
    scenarios: Mapping[str, Scenario] = {
        "thrusters": Scenario(
            "the paper's robot and square waves, white noise on the IMUs; what accelerometers on the links read, or "
            "what the paper's equation has; thruster 2 off",
            _PAPERS,
        ),
        "hardware": Scenario(
            "an air table: lag, gain and dead band of thrusters, drag, tilt, draughts, friction, cable, IMUs' places, "
            "mounting, scales, biases and clocks: drawn anew for each seed",
            _LABORATORY,
        ),
        "load": Scenario("the same, and one link takes up a load in the middle of the run", _LABORATORY),
    }

    def channels(self, configuration: ThrusterChainConfiguration) -> tuple[Channel, ...]:
        """Commands to the thrusters and one IMU per link."""
        return space.channels(configuration)

    def refuse_topics(self, configuration: ThrusterChainConfiguration, names: Collection[str]) -> None:
        """Raise UserError where the links with an IMU are not those of the configuration: the robot is another one."""
        links = configuration.chain.link_names
        imus = {name.split("/")[1] for name in names if name.startswith("imu/") and name.endswith("/data_raw")}
        # An IMU elsewhere in the laboratory is none of a link: links are numbered.
        stems = {name.rstrip("0123456789") for name in links}
        imus = {name for name in imus if name.rstrip("0123456789") in stems}
        if imus and imus != set(links):
            there = ", ".join(sorted(imus, key=lambda name: (len(name), name)))
            raise UserError(
                f"the recording has IMUs of {len(imus)} links ({there}), and the configuration {len(links)} links "
                f"({', '.join(links)}): name the parameter file of this robot with --config, or leave out with "
                "--drop imu/<link> what an IMU did not record"
            )

    def estimator(self, configuration: ThrusterChainConfiguration, name: str) -> Estimator[Any]:
        """The one of that name."""
        return _ESTIMATORS[name](configuration)

    observed = offline("thruster_chain_estimation.judging.observed_run:observe_run")
    """When masses and inertias could be known, and how well."""

    observability_report = offline("thruster_chain_estimation.judging.observed_run:ChainReport")
    """Link by link and parameter by parameter."""

    designed_inputs = offline("thruster_chain_estimation.judging.thrust_design:design")
    """Pulses from which masses and inertias would be known best."""

    def smoother(self, configuration: ThrusterChainConfiguration, name: str) -> RobustSmoother:
        """That of `robust`; UserError for the others."""
        if name != "robust":
            raise UserError(
                f"--smooth: the smoother of the thruster chain is that of robust, and {name} has none; "
                "leave out --smooth, or take --estimator robust"
            )
        from thruster_chain_estimation.estimators import robust_smoother  # offline only: nodes do without

        return robust_smoother.RobustSmoother(configuration)

    check_model = offline("onboard_estimation.learning.model_file:load", calibration.KIND)
    train = offline("thruster_chain_estimation.training.training:train")
    """What runs of one robot tell of it, with motion capture or without."""

    reproduce = offline("thruster_chain_estimation.paper.reproduction:reproduce")
    """The paper's tables and figures, see `Reproduced`."""

    def exercise(self, configuration: ThrusterChainConfiguration, estimator: str) -> None:
        """Half a second of rest, then of pushes: some kernels run while it moves only; and what nodes tell beside."""
        listened = self.channels(configuration)
        pipeline = Pipeline(self.estimator(configuration, estimator), listened)
        for step in range(1, _EXERCISE_STEPS + 1):
            for channel in listened:
                value = neutral_value(channel)
                if not channel.command:
                    value[:] = 0.01 * (step % 7)  # a sensor that repeats itself is not heard
                elif step > _EXERCISE_STEPS // 2:
                    value[:] = 0.5 * configuration.thruster.limit_n
                pipeline.process(Measurement(step * 10_000_000, channel.sensor, value))
        still, names = np.zeros(configuration.chain.count), configuration.chain.link_names
        mean = space.initial_mean(configuration, still, np.zeros(2))
        estimate = Estimate(0, mean, self.initial_covariance(configuration))
        observed_now(assumed_chain(configuration), names, estimate, still)

    def initial_covariance(self, configuration: ThrusterChainConfiguration) -> Matrix:
        """As configured; masses and inertias anywhere within their tolerances."""
        return space.initial_covariance(configuration)

    def known_in(
        self, configuration: ThrusterChainConfiguration, scenario: str, variant: str = ""
    ) -> ThrusterChainConfiguration:
        """What accelerometers read, where it is the paper's equation that says so."""
        return replace(configuration, imu_model="paper") if variant.startswith("paper") else configuration

    def known_before(self, configuration: ThrusterChainConfiguration) -> dict[str, Vector]:
        """Masses and inertias as designed, and that it rests; where it stands, if the configuration says so."""
        chain, initial = configuration.chain, configuration.initial
        known = {"rates": np.zeros(chain.count), "masses": chain.masses, "inertias": chain.inertias}
        if initial.given:
            known |= {"headings": configuration.initial_headings_rad, "position": np.array(initial.position_m)}
        return known | {"velocity": np.zeros(2)}

    def truth_specification(self, configuration: ThrusterChainConfiguration) -> TruthSpecification:
        """Poses of all links, and what they weigh where that is known."""
        chain, truth = configuration.chain, configuration.truth
        heading = np.deg2rad(np.hypot(truth.heading_stddev_deg, truth.alignment_stddev_deg)) ** 2
        # The links' own centres of mass lie anywhere within their tolerance.
        centre = space.BOUND_TO_STDDEV * configuration.tolerances.centre_of_mass_m
        position = (truth.position_stddev_m**2 + centre**2) / chain.count
        return TruthSpecification(
            chain.link_names,
            "none",
            {"headings": heading * np.eye(chain.count), "position": position * np.eye(2)},
            (space.true_parameters_channel(chain.link_names),),
        )

    def true_parts(
        self, configuration: ThrusterChainConfiguration, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, Matrix]:
        """Headings and centre of mass from the poses of the links; masses and inertias where they were weighed."""
        chain = configuration.chain
        poses = np.stack([planar_pose(bodies[name]) for name in chain.link_names], axis=1)
        parts = {"headings": poses[..., 2]}
        masses = np.broadcast_to(chain.masses, poses.shape[:2])
        if (weighed := bodies.get(space.TRUE_PARAMETERS)) is not None:
            parts["masses"], parts["inertias"] = np.split(weighed, 2, axis=1)
            masses = np.where(np.isfinite(parts["masses"]), parts["masses"], masses)
        parts["position"] = space.centre_of_mass(poses[..., :2], masses)
        return parts

    def outline(self, configuration: ThrusterChainConfiguration, space_of: StateSpace, means: Matrix) -> Matrix:
        """Polyline through the ends of the links."""
        headings, masses, position = (means[:, space_of.coordinates(name)] for name in _SHAPE)
        return space.outline(configuration.chain, headings, masses, position)

    def body_poses(
        self, configuration: ThrusterChainConfiguration, space_of: StateSpace, means: Matrix
    ) -> dict[str, Matrix]:
        """Poses of the links, at their middles, x along the link."""
        headings, masses, position = (means[:, space_of.coordinates(name)] for name in _SHAPE)
        middles = space.link_positions(configuration.chain.lengths, headings, masses, position)
        poses = planar_poses(middles, headings)
        return {name: poses[:, link] for link, name in enumerate(configuration.chain.link_names)}

    def body_shapes(self, configuration: ThrusterChainConfiguration) -> Shapes:
        """Links as boxes, thrusters as cylinders along their thrust, joints as pins at the front ends."""
        chain, fans = configuration.chain, []
        for length, x, y, angle in zip(
            chain.link_lengths_m, chain.thruster_x_m, chain.thruster_y_m, chain.thruster_angles_rad, strict=True
        ):
            size = (_FAN_DIAMETER * length, _FAN_DIAMETER * length, _FAN_LENGTH * length)
            # A cylinder's axis is z: tipped over onto x, then turned into the direction of the thrust.
            turns = (0.0, 0.5 * math.pi, angle)
            fans.append(Shape("cylinder", size, (x, y, 0.5 * _BODY[2] * length), turns, "wheel"))
        return link_shapes(chain.link_names, chain.link_lengths_m, _BODY, _PIN, fans)

    def urdf(self, configuration: ThrusterChainConfiguration) -> str:
        """The chain, its first link as its root; joints are named as in `joint_states`."""
        chain, travel = configuration.chain, math.radians(configuration.chain.joint_travel_deg)
        hinges = [Hinge(f"joint_{joint}", -travel, travel, 0.0) for joint in range(1, chain.count)]
        return links_urdf(self.name, chain.link_names, chain.link_lengths_m, hinges, self.body_shapes(configuration))

    def simulation(
        self,
        configuration: ThrusterChainConfiguration,
        scenario: str,
        variant: str,
        rng: np.random.Generator,
        imu_rate_hz: float = 0.0,
    ) -> Simulation:
        """The paper's run, or a laboratory's, of a robot that is drawn from the generator."""
        from thruster_chain_estimation.simulation import robot_build, simulator  # estimating nodes do without

        count, own = configuration.chain.count, configuration.thruster.commands
        if own and (scenario != "thrusters" or variant.endswith("_2_off")):
            raise UserError(
                f"thruster.commands ({own}) are for the scenario thrusters with all of its thrusters, not for "
                f"{' '.join((scenario, variant)).strip()}: name the scenario thrusters, or leave the parameter empty"
            )
        if scenario == "thrusters":
            without = 1 if variant.endswith("_2_off") else None
            return simulator.ThrusterChainSimulation(
                configuration,
                robot_build.papers_build(configuration, rng),
                simulator.recorded_commands(own, count) if own else simulator.square_waves(count, without=without),
                rng,
                imu_rate_hz=imu_rate_hz,
                imu_model="paper" if variant.startswith("paper") else "physical",
            )
        hardware, limit_n = robot_build.hardware_scenario(), configuration.thruster.limit_n
        without = int(rng.integers(count)) if variant == "one_off" else None
        return simulator.ThrusterChainSimulation(
            configuration,
            robot_build.hardware_build(configuration, hardware, rng),
            simulator.laboratory_mixture(count, limit_n, hardware.rest_s, rng, without),
            rng,
            hardware,
            imu_rate_hz,
            load_on=int(rng.integers(count)) if scenario == "load" else None,
        )


_SHAPE = ("headings", "masses", "position")


ROBOT = ThrusterChainRobot()
