"""Simulated hoppers, and what is read out of their exact motion, for the tests of the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopper_estimation.model import dynamics
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP
from hopper_estimation.simulation import simulator
from hopper_estimation.simulation.scenario import hopper_scenario, ideal_scenario

CONFIGURATION = HopperConfiguration()
SCENARIO = hopper_scenario()
IDEAL = ideal_scenario()
LENGTH_M = CONFIGURATION.robot.standing_height_m
GRAVITY = CONFIGURATION.robot.gravity_m_s2
STEP_S = dynamics.STEP_S
TICK_S = STEP_S * dynamics.TICK_STEPS
SECOND_NS = 1_000_000_000
SILENT = {"noise_m_s2": 0.0, "step_m_s2": 0.0}


def simulation(variant="1m", seed=1, scenario=IDEAL, uneven=False):
    made = simulator.HopperSimulation(CONFIGURATION, variant, np.random.default_rng(seed), scenario, uneven)
    made.trace = []
    return made


def advanced(made, stop_s, start_s=0.0, step_s=None):
    """Series by topic, of one or of several calls."""
    out = {}
    stops = [stop_s] if step_s is None else np.arange(start_s + step_s, stop_s + 1e-9, step_s)
    for stop in stops:
        recording = made.advance(round(stop * SECOND_NS))
        for one in (*recording.sensors, *recording.truth):
            out.setdefault(one.channel.topic, []).append((one.stamps_ns, one.values))
    return {topic: tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True)) for topic, pieces in out.items()}


def trace_of(made):
    return np.concatenate(made.trace)


def silent(scenario):
    return replace(
        scenario, low_g=replace(scenario.low_g, **SILENT), high_g=replace(scenario.high_g, **SILENT), jitter_s=0.0
    )


def quiet_mount(scenario, **changed):
    return replace(scenario, mount=replace(scenario.mount, **changed))


class Events:
    """True events of a trace: a row holds the state at the end of its step."""

    def __init__(self, trace, start_s=0.0):
        phase = trace[:, dynamics.T_PHASE]
        rows = np.flatnonzero(np.diff(phase)) + 1
        into = {one: rows[phase[rows] == one] for one in range(5)}
        first = into[STANCE_DOWN][0]
        times = {one: start_s + (at[at >= first] + 1) * STEP_S for one, at in into.items()}
        self.touchdown_s, self.squat_s, self.liftoff_s, self.apex_s = (
            times[one] for one in (STANCE_DOWN, STANCE_UP, REBOUND, DROP)
        )
        self.apex_rows = into[DROP][into[DROP] >= first]
        self.apex_m = trace[self.apex_rows, dynamics.T_HEIGHT]


NOMINAL = simulation().plant
