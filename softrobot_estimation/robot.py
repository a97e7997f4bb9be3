"""The soft robot as a robot of the suite."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel
from onboard_estimation.contract.reported import Drawn, Reported
from onboard_estimation.contract.reproduced import Reproduced
from onboard_estimation.contract.robot import offline
from onboard_estimation.contract.simulated import Scenario, SimulatedLive, Simulation
from onboard_estimation.contract.trained import Identified, Trained
from onboard_estimation.contract.truth import WithLateTruth, WithTrueRates
from onboard_estimation.pipeline.estimator import Estimator
from softrobot_estimation.estimators.algorithm_1 import Algorithm1Estimator
from softrobot_estimation.estimators.filter_model import FILTERS, KIND, configured_model
from softrobot_estimation.estimators.open_loop import OpenLoop
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.model.configuration import SETTLE_S, WRENCH, SoftRobotConfiguration, channels

_EXERCISE_MEMORY_S = 0.2


class SoftRobot(
    SimulatedLive[SoftRobotConfiguration],
    Drawn[SoftRobotConfiguration],
    WithTrueRates[SoftRobotConfiguration],
    WithLateTruth[SoftRobotConfiguration],
    Identified[SoftRobotConfiguration],
    Trained[SoftRobotConfiguration],
    Reported[SoftRobotConfiguration],
    Reproduced[SoftRobotConfiguration],
):
    """One pneumatic segment with three or more chambers on a force-torque sensor."""

    name = "softrobot"
    summary = (
        "soft segment with pressure chambers on a force-torque sensor: tip and stiffness from the forces at its base"
    )
    settle_s = SETTLE_S
    configuration_type = SoftRobotConfiguration
    configuration_file = "config/softrobot.yaml"
    estimators = ("ukf", "marginalized_pf", "algorithm_1", "open_loop")
    model_parameter = "learning.model"
    paper = "softrobot"
    training_forms = FILTERS
    scenarios: Mapping[str, Scenario] = {
        "laboratory": Scenario(
            "a fine chain of uneven stiffness with hysteresis and creep, valves, hoses, drift, tilt, late motion "
            "capture: drawn anew for each seed"
        ),
        "payload": Scenario("the same, and 10 to 40 g are hung on the tip in the middle of the run"),
        "upright": Scenario("the first, but the base's z points up"),
        "paper": Scenario("the filters' own segment of a hidden stiffness over (dx, dy), white noise alone"),
    }

    def channels(self, configuration: SoftRobotConfiguration) -> tuple[Channel, ...]:
        """Set points and pressures of the chambers, wrench at the base."""
        return channels(configuration.chambers.names)

    def listened_channels(self, configuration: SoftRobotConfiguration, estimator: str) -> tuple[Channel, ...]:
        """Without set points, which no estimator makes use of, and without the wrench where it is not asked for."""
        unused = {WRENCH.sensor} if estimator == "open_loop" else set()
        return tuple(one for one in self.channels(configuration) if not one.command and one.sensor not in unused)

    def refuse_topics(self, configuration: SoftRobotConfiguration, names: Collection[str]) -> None:
        """Raise UserError where the chambers with a pressure are not those of the configuration."""
        expected = set(configuration.chambers.names)
        found = {name.split("/")[1] for name in names if name.startswith("pressure/") and name.count("/") == 1}
        if found and found != expected:
            raise UserError(
                f"the recording has pressures of {len(found)} chambers ({', '.join(sorted(found))}), and the "
                f"configuration {len(expected)} ({', '.join(configuration.chambers.names)}): name the parameter file "
                "of this robot with --config"
            )

    def estimator(self, configuration: SoftRobotConfiguration, name: str) -> Estimator[Any]:
        """The one of that name; as it was tuned and with what was learned where the configuration names a model."""
        model = configured_model(configuration)
        if model is not None:
            configuration = model.applied(configuration, name)
        if name == "marginalized_pf":
            return ParticleEstimator(configuration, None if model is None else model.stiffness)
        if name == "algorithm_1":
            return Algorithm1Estimator(configuration)
        if name == "ukf":
            return UnscentedEstimator(configuration)
        return OpenLoop(configuration)

    def exercise(self, configuration: SoftRobotConfiguration, estimator: str) -> None:
        """With a memory so short that particles forget at once: with a long one they begin to after seconds."""
        forgetful = {"learning.memory_s": _EXERCISE_MEMORY_S, "learning.model": ""}
        super().exercise(configuration.with_parameters(forgetful), estimator)

    truth_specification = offline("softrobot_estimation.judging.ground_truth:specification")
    """Poses of tip and base, and the stiffness of a simulated robot."""

    true_parts = offline("softrobot_estimation.judging.ground_truth:parts")
    """Place of the tip in the base's frame, and the stiffness of a simulated robot."""

    true_rates = offline("softrobot_estimation.judging.ground_truth:rates")
    """Velocity of the tip, by parabolas through five frames."""

    truth_lateness = offline("softrobot_estimation.judging.ground_truth:lateness")
    """By the force on the sensor against the acceleration of the tip, while the robot vibrates."""

    def known_in(
        self, configuration: SoftRobotConfiguration, scenario: str, variant: str = ""
    ) -> SoftRobotConfiguration:
        """That it stands upright; in the paper's, that there is nothing but noise."""
        if scenario == "upright":
            return configuration.with_parameters({"mounting.attitude": "upright"})
        if scenario == "paper":
            from softrobot_estimation.simulation import paper_simulator  # estimating nodes do without

            return paper_simulator.known_configuration(configuration)
        return configuration

    def simulation(
        self,
        configuration: SoftRobotConfiguration,
        scenario: str,
        variant: str,
        rng: np.random.Generator,
        imu_rate_hz: float = 0.0,
    ) -> Simulation:
        """A robot that is drawn from the generator, and follows set points without an end. It has no IMU."""
        from softrobot_estimation.simulation.paper_simulator import PaperSimulation  # estimating nodes do without
        from softrobot_estimation.simulation.simulator import LaboratorySimulation

        if scenario == "paper":
            return PaperSimulation(configuration, rng)
        return LaboratorySimulation(self.known_in(configuration, scenario), rng, payload=scenario == "payload")

    body_poses = offline("softrobot_estimation.model.description:body_poses")
    """Base plate, pieces of the backbone, tip plate: on the arc that ends at the tip."""

    body_shapes = offline("softrobot_estimation.model.description:shapes")
    """Cylinders and two plates."""

    urdf = offline("softrobot_estimation.model.description:urdf")
    """Its bodies, each free in the one before."""

    outline = offline("softrobot_estimation.model.description:outline")
    """Backbone as one sees it along the base's z, which shows how far and where to it bends."""

    identify = offline("softrobot_estimation.training.identified:identify")
    """Grey box from pressures and motion capture. Free runs are fitted: there is nothing to low-pass."""

    notes = offline("softrobot_estimation.judging.stiffness_report:notes")
    """Parameters that came from a model, and whether particles had lost the robot."""

    report_sections = offline("softrobot_estimation.judging.stiffness_report:sections")
    """The stiffness over time, beside the bending."""

    check_model = offline("onboard_estimation.learning.model_file:load", KIND)
    train = offline("softrobot_estimation.training.training:train")
    """Both filters tuned on motion capture of the tip, or one of them, and the stiffness as particles learn it."""

    reproduce = offline("softrobot_estimation.paper.reproduction:reproduce")
    """Algorithm 1 and the `ukf` on simulated robots of the paper's kind, or on recordings."""


ROBOT = SoftRobot()
