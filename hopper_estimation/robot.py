"""The hopping robot as a robot of the suite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.estimators.estimator import HopperEstimator
from hopper_estimation.estimators.filters import BIAS_NAMES, ENCODER_NAMES, NAMES, TRAINED, filters_of
from hopper_estimation.model.configuration import LEG, MOTORS, HopperConfiguration, limited_channels
from hopper_estimation.model.description import hopper_body_poses, hopper_shapes, hopper_urdf
from hopper_estimation.simulation.scenario import hopper_scenario, ideal_scenario
from hopper_estimation.simulation.simulator import VARIANTS, HopperSimulation
from onboard_estimation.base.measurement import Channel, Matrix
from onboard_estimation.contract.description import Shapes
from onboard_estimation.contract.reported import Drawn, Reported
from onboard_estimation.contract.reproduced import Reproduced
from onboard_estimation.contract.robot import TruthSpecification, offline
from onboard_estimation.contract.simulated import Scenario, SimulatedLive
from onboard_estimation.contract.trained import Trained
from onboard_estimation.contract.truth import StartedFromTruth, WithTrueRates
from onboard_estimation.filtering.state_space import StateSpace

if TYPE_CHECKING:
    from onboard_estimation.contract.tracks import BodyTrack


class HopperRobot(
    SimulatedLive[HopperConfiguration],
    Drawn[HopperConfiguration],
    StartedFromTruth[HopperConfiguration],
    WithTrueRates[HopperConfiguration],
    Trained[HopperConfiguration],
    Reported[HopperConfiguration],
    Reproduced[HopperConfiguration],
):
    """MultiMo-MHR and other robots that hop on one springy leg, with thrust in flight."""

    name = "hopper"
    summary = "robot hopping on a springy leg, two accelerometers: phase, height and vertical velocity"
    settle_s = 0.0
    recovery_s = 2.5
    configuration_type = HopperConfiguration
    configuration_file = "config/hopper.yaml"
    estimators = NAMES
    model_parameter = "filter_model"
    training_forms = (*TRAINED, "all")
    scenarios: Mapping[str, Scenario] = {
        "hardware": Scenario(
            "losses, gusts, sway, aliased shocks, offsets, scales, jitter on flat ground: drawn anew for each seed",
            VARIANTS,
        ),
        "uneven": Scenario("the same on ground that steps up or down by some centimetres from hop to hop", VARIANTS),
        "foreign": Scenario(
            "as hardware, and what no estimator has a term for: a leg that pushes by itself, soft ground, edges, ...",
            VARIANTS,
        ),
        "ideal": Scenario("the two-mass model with a little white noise", VARIANTS),
    }

    def channels(self, configuration: HopperConfiguration) -> tuple[Channel, ...]:
        """Accelerometers, and what else there may be: attitude, motors, commanded height, leg, known heights."""
        return limited_channels(configuration)

    def listened_channels(self, configuration: HopperConfiguration, estimator: str) -> tuple[Channel, ...]:
        """Without what that estimator makes no use of: the leg's encoder, the motors."""
        unused = set()
        if estimator not in ENCODER_NAMES:
            unused.add(LEG.sensor)
        if estimator not in BIAS_NAMES:
            unused.add(MOTORS.sensor)
        return tuple(one for one in self.channels(configuration) if one.sensor not in unused)

    def estimator(self, configuration: HopperConfiguration, name: str) -> HopperEstimator:
        """One of the filters, with its parameters from the configured model, or from those of the package."""
        where = f"model {configuration.filter_model}" if configuration.filter_model else "the package's model"
        entry = filters_of(configuration.filter_model).entry(name, where)
        return HopperEstimator(configuration, name, entry)

    def initial_covariance(self, configuration: HopperConfiguration) -> Matrix:
        """Of a robot that is seen to stand, or to be wherever it is: 1 cm, 5 cm/s."""
        return np.diag([0.01**2, 0.05**2])

    def truth_specification(self, configuration: HopperConfiguration) -> TruthSpecification:
        """Pose of the body."""
        noise = {
            "height": np.array([[configuration.truth_stddev_m**2]]),
            "vertical_velocity": np.array([[configuration.truth_velocity_stddev_m_s**2]]),
        }
        return TruthSpecification((configuration.truth_body,), "none", noise)

    def true_parts(
        self, configuration: HopperConfiguration, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Height of the body."""
        return {"height": bodies[configuration.truth_body][:, 2:3]}

    def true_rates(
        self, configuration: HopperConfiguration, tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Vertical velocity, by parabolas through 25 ms of the truth."""
        from hopper_estimation.judging.hop_truth import velocity_at  # offline only: nodes do without

        return {"vertical_velocity": velocity_at(tracks[configuration.truth_body], stamps_ns)[:, None]}

    def body_poses(
        self, configuration: HopperConfiguration, space: StateSpace, means: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Body and leg."""
        return hopper_body_poses(space, means, configuration.robot.standing_height_m)

    def body_shapes(self, configuration: HopperConfiguration) -> Shapes:
        """A box on a rod."""
        return hopper_shapes(configuration.robot.standing_height_m)

    metrics = offline("hopper_estimation.judging.report:hop_figures")
    """Errors by hop (M1 to M5), timing of events, agility, ground."""

    presented = offline("hopper_estimation.judging.report:presented")
    """Figures of its hops, height over time, phases by name."""

    report_sections = offline("hopper_estimation.judging.report:hop_sections")
    """Hops in words, with height, phase and readings along the run."""

    stretches = offline("hopper_estimation.judging.report:phase_stretches")
    """Each phase."""

    notes = offline("hopper_estimation.judging.report:hop_notes")
    """Sensors that are missing or clipped, hops that were missed."""

    check_model = offline("hopper_estimation.estimators.filters:load_filters")
    train = offline("hopper_estimation.training.training:train_hopper")
    """Parameters of one filter or of all, see `filter_training`."""

    paper = "hopping"
    reproduce = offline("hopper_estimation.paper.reproduction:reproduce")
    """On KF1, its error-state siblings, and hopping by their estimates."""

    def urdf(self, configuration: HopperConfiguration) -> str:
        """Body and leg."""
        return hopper_urdf(configuration.robot.standing_height_m, self.name)

    def simulation(
        self,
        configuration: HopperConfiguration,
        scenario: str,
        variant: str,
        rng: np.random.Generator,
        imu_rate_hz: float = 0.0,
    ) -> HopperSimulation:
        """A hopping robot, its controller fed with the truth unless an estimate is given to it."""
        from dataclasses import replace

        from hopper_estimation.simulation.foreign_effects import foreign_scenario

        magnitudes = ideal_scenario() if scenario == "ideal" else hopper_scenario()
        if imu_rate_hz > 0.0:
            magnitudes = replace(magnitudes, imu_rate_hz=imu_rate_hz)
        foreign = foreign_scenario() if scenario == "foreign" else None
        return HopperSimulation(configuration, variant, rng, magnitudes, scenario == "uneven", foreign)


ROBOT = HopperRobot()
