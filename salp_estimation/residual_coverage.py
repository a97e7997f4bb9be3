"""How much of a run lies outside the data that its residual model was trained with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import Note
from onboard_estimation.measurement import Vector
from onboard_estimation.series import Series
from salp_estimation.chain_estimator import COMMAND
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_model import ResidualModel
from salp_estimation.training_runs import lagged_commands, rim_speeds

Rows = NDArray[np.float64]

MARGIN = 0.05
"""The covered range of an input is widened by this share of it, on either side: so far a model carries."""
WORTH_SAYING = 0.05
"""A larger share of the run outside belongs into the verdict."""
_MOST_NAMED = 4


def outside(model: ResidualModel, joint_angles: Rows, controls: Rows) -> tuple[float, dict[str, float]]:
    """Shares of a run, in [0, 1], at which the inputs of a model lie outside its training data.

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1), rad, and lagged rim speeds (K, N), m/s; rows with NaN do not count.

    Returns
    -------
    At which at least one does; and of those inputs that do at all, by name, the largest first.
    """
    conditions = model.header.training
    lowest, highest = np.array(conditions.input_lowest), np.array(conditions.input_highest)
    margin = MARGIN * (highest - lowest)
    inputs = np.hstack([joint_angles, controls])
    inputs = inputs[np.isfinite(inputs).all(axis=1)]
    if not len(inputs):
        return 0.0, {}
    beyond = (inputs < lowest - margin) | (inputs > highest + margin)
    shares: Vector = beyond.mean(axis=0)
    names, order = model.header.input_names, np.argsort(-shares, kind="stable")
    return float(beyond.any(axis=1).mean()), {names[k]: float(shares[k]) for k in order if shares[k] > 0.0}


def model_notes(
    configuration: SalpConfiguration,
    model: ResidualModel,
    series: Sequence[Series],
    stamps_ns: NDArray[np.int64],
    joint_angles: Rows,
) -> tuple[Note, ...]:
    """With which model a run was estimated, and how much of it lies outside the training data.

    Parameters
    ----------
    stamps_ns, joint_angles
        (K,) and (K, N - 1), of the estimates.
    """
    training = model.header.training
    trained = (
        f"Residual model of the form {model.header.kind}, trained with {training.point_count} points of "
        f"{len(training.runs)} runs."
    )
    command = next((one for one in series if one.channel.sensor == COMMAND and len(one.stamps_ns)), None)
    chain = configuration.chain
    controls = np.zeros((len(stamps_ns), len(chain.link_names)))
    if command is not None:
        given_ns, speeds = rim_speeds(chain, command)
        if len(given_ns):
            controls = lagged_commands(given_ns, speeds, stamps_ns)
    any_input, by_input = outside(model, joint_angles, controls)
    if any_input == 0.0:
        return (Note(f"{trained} All of the run lies within its training data."),)
    names = [f"{name} {100.0 * share:.3g} %" for name, share in list(by_input.items())[:_MOST_NAMED]]
    more = len(by_input) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    share = f"{100.0 * any_input:.2g} % of the run"
    # The inputs that are outside for at least half as long as the worst one: those to be trained.
    worst = max(by_input.values())
    blamed = [name for name, one in by_input.items() if one >= 0.5 * worst][:_MOST_NAMED]
    verdict = f"{share} is outside the training data ({', '.join(blamed)})" if any_input > WORTH_SAYING else ""
    return (Note(f"{trained} {share} is outside its training data: {listed}.", verdict),)
