"""The LandSalp paper's Enhanced GP-UKF to the letter (sections IV and V-B), by FilterPy and scikit-learn: a reference.

One Gaussian process an output, five of D_f (successors less what the model says, the pose's as a body-frame increment)
and three of D_h (raw gyro samples less what the model says), over joint angles and commands at 5 Hz, unfiltered; means
are added to the models, Q and R are GP_Sigma(D_f) and GP_Sigma(D_h) at the mean, sigma points run over pose and joint
angles. Squared exponentials of one length over standardised inputs, as `fitrgp` has it. Where the paper says nothing:
sigma points of equal weight, a gyro's last sample within 0.1 s, drag as it ships (processes learn what is wrong there).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from filterpy.kalman import JulierSigmaPoints, unscented_transform
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.measuring import Array
from benchmarks.salp.runs import ROBOT, SETTLE_S, Run
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.truth import truth_at
from salp_estimation.estimators.chain_estimator import COMMAND, GYRO_AXES, STANDING_M_S
from salp_estimation.model.configuration import SalpConfiguration

RATE_HZ = 5.0
MOST_POINTS = 2250
"""Of a training, as the paper has; more are thinned."""


class Sampled(NamedTuple):
    """A recording at K instants of `RATE_HZ`: states (K, 5), NaN where unknown; commands (K, 3), m/s; gyros (K, 3)."""

    states: Array
    controls: Array
    gyros: Array


class PaperFilter:
    """The processes of all outputs, and the filter that asks them."""

    def __init__(self, configuration: SalpConfiguration, runs: Sequence[LoadedRecording]) -> None:
        self._configuration, self._chain = configuration, configuration.chain.build()
        self._points = JulierSigmaPoints(self._chain.link_count + 2, kappa=0.5)
        known = [self._known(self.sampled(run)) for run in runs]
        inputs, targets = (np.vstack(kind) for kind in zip(*known, strict=True))
        thin = np.linspace(0, len(inputs) - 1, min(MOST_POINTS, len(inputs))).round().astype(np.intp)
        self._centre, self._scale = inputs.mean(axis=0), inputs.std(axis=0)
        self._processes = [_process(self._standard(inputs[thin]), column) for column in targets[thin].T]

    def judged(self, run: LoadedRecording, seed: int) -> Run:
        """From the initial error that is drawn for this seed, as `judged` has it."""
        robot, configuration, chain = ROBOT, self._configuration, self._chain
        data = self.sampled(run)
        covariance = robot.initial_covariance(configuration)
        assert covariance is not None
        drawn = covariance_root(covariance) @ np.random.default_rng(seed).normal(size=len(covariance))
        size = chain.link_count + 2
        first = int(np.argmax(np.isfinite(data.states).all(axis=1)))
        mean, spread = data.states[first] + drawn[:size], covariance[:size, :size].copy()
        means, spreads = np.full((len(data.states), size), np.nan), np.full((len(data.states), size, size), np.nan)
        for k in range(first, len(data.states)):
            if k > first:
                mean, spread = self.predicted(mean, spread, data.controls[k - 1])
            mean, spread = self.corrected(mean, spread, data.controls[k], data.gyros[k])
            means[k], spreads[k] = mean, spread
        rows = slice(first + round(SETTLE_S * RATE_HZ), None)
        errors = means[rows, 3:] - data.states[rows, 3:]
        noise = robot.truth_specification(configuration).covariances["joint_angles"]
        known = np.isfinite(errors).all(axis=1)
        errors, spreads = errors[known], spreads[rows, 3:, 3:][known] + noise
        stddevs = np.sqrt(np.diagonal(spreads, axis1=1, axis2=2))
        part = "joint_angles"
        return Run({part: errors}, {part: stddevs}, {part: nees(errors, spreads)})

    def sampled(self, run: LoadedRecording) -> Sampled:
        """At `RATE_HZ`, from the first command on."""
        chain = self._configuration.chain
        series = {one.channel.sensor: one for one in run.series}
        command = series[COMMAND]
        step_ns = round(NANOSECONDS_PER_SECOND / RATE_HZ)
        stamps = np.arange(command.stamps_ns.min(), command.stamps_ns.max(), step_ns)
        settings = JudgeSettings()
        parts, _ = truth_at(ROBOT, self._configuration, run, stamps, settings.longest_truth_gap_s)
        order = np.argsort(command.stamps_ns, kind="stable")
        number = np.searchsorted(command.stamps_ns[order], stamps, side="right") - 1
        controls = (command.values[order] * chain.signed_wheel_radii_m)[number]
        axis, sign = GYRO_AXES[self._configuration.gyro.axis]
        gyros = np.full((len(stamps), len(chain.link_names)), np.nan)
        for link, name in enumerate(chain.link_names):
            one = series[f"imu/{name}"]
            order = np.argsort(one.stamps_ns, kind="stable")
            last = np.searchsorted(one.stamps_ns[order], stamps, side="right") - 1
            fresh = (last >= 0) & (
                stamps - one.stamps_ns[order][last] < settings.longest_truth_gap_s * NANOSECONDS_PER_SECOND
            )
            rates = sign * one.values[order][:, IMU.angular_velocity][:, axis]
            gyros[fresh, link] = rates[last[fresh]]
        return Sampled(np.hstack([parts["pose"], parts["joint_angles"]]), controls, gyros)

    def _known(self, one: Sampled) -> tuple[Array, Array]:
        """Inputs (k, 5) and outputs (k, 8) of D_f and D_h where both are known and the robot drives."""
        inputs = np.hstack([one.states[:, 3:], one.controls])
        targets = np.hstack([self._moved(one), one.gyros - _rows(self._chain.gyro_rates, one)])
        driving = np.abs(one.controls).max(axis=1) > STANDING_M_S
        rows = np.isfinite(inputs).all(axis=1) & np.isfinite(targets).all(axis=1) & driving
        return inputs[rows], targets[rows]

    def _moved(self, one: Sampled) -> Array:
        """D_f: (K, 5) measured less modelled increments to the next instant, NaN at the last."""
        out = np.full(one.states.shape, np.nan)
        modelled = _rows(self._chain.velocity, one) / RATE_HZ
        step = np.diff(one.states, axis=0)
        turn = np.arctan2(np.sin(step[:, 2]), np.cos(step[:, 2]))
        middle = one.states[:-1, 2] + 0.5 * turn
        forward = np.cos(middle) * step[:, 0] + np.sin(middle) * step[:, 1]
        left = np.cos(middle) * step[:, 1] - np.sin(middle) * step[:, 0]
        out[:-1] = np.column_stack([forward, left, turn, step[:, 3:]]) - modelled[:-1]
        return out

    def predicted(self, mean: Array, spread: Array, u: Array) -> tuple[Array, Array]:
        """After a period of these commands."""
        points, sigmas = self._points, self._points.sigma_points(mean, spread)
        means, _ = self._residuals(sigmas, u, range(len(mean)))
        _, stddevs = self._residuals(mean[None], u, range(len(mean)))
        step = self._chain.velocity(sigmas[:, 3:], u) / RATE_HZ + means
        middle = sigmas[:, 2] + 0.5 * step[:, 2]
        sigmas[:, 0] += np.cos(middle) * step[:, 0] - np.sin(middle) * step[:, 1]
        sigmas[:, 1] += np.sin(middle) * step[:, 0] + np.cos(middle) * step[:, 1]
        sigmas[:, 2:] += step[:, 2:]
        found: tuple[Array, Array] = unscented_transform(sigmas, points.Wm, points.Wc, np.diag(stddevs[0] ** 2))
        return found

    def corrected(self, mean: Array, spread: Array, u: Array, gyros: Array) -> tuple[Array, Array]:
        """By the gyros that are no NaN."""
        heard = np.flatnonzero(np.isfinite(gyros))
        if not len(heard):
            return mean, spread
        outputs = [len(mean) + int(link) for link in heard]
        points, sigmas = self._points, self._points.sigma_points(mean, spread)
        means, _ = self._residuals(sigmas, u, outputs)
        _, stddevs = self._residuals(mean[None], u, outputs)
        seen = self._chain.gyro_rates(sigmas[:, 3:], u)[:, heard] + means
        expected, s = unscented_transform(seen, points.Wm, points.Wc, np.diag(stddevs[0] ** 2))
        cross = (sigmas - mean).T @ (points.Wc[:, None] * (seen - expected))
        gain = np.linalg.solve(s, cross.T).T
        after = spread - gain @ s @ gain.T
        return mean + gain @ (gyros[heard] - expected), 0.5 * (after + after.T)

    def _residuals(self, states: Array, u: Array, outputs: Sequence[int]) -> tuple[Array, Array]:
        """Means and standard deviations (k, len(outputs)); the latter include the noise of a sample."""
        at = self._standard(np.hstack([states[:, 3:], np.tile(u, (len(states), 1))]))
        found = [self._processes[output].predict(at, return_std=True) for output in outputs]
        return np.column_stack([mean for mean, _ in found]), np.column_stack([stddev for _, stddev in found])

    def _standard(self, inputs: Array) -> Array:
        return np.asarray((inputs - self._centre) / self._scale)


def _rows(model: Callable[[Array, Array], Array], one: Sampled) -> Array:
    """What the model says at each instant."""
    return np.array([model(r, u) for r, u in zip(one.states[:, 3:], one.controls, strict=True)])


def _process(inputs: Array, target: Array) -> GaussianProcessRegressor:
    """With hyper-parameters of the greatest marginal likelihood, after 30 iterations at most, as the paper allows."""
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianProcessRegressor(kernel, normalize_y=True, optimizer=_thirty).fit(inputs, target)


def _thirty(objective: object, initial: Array, bounds: Array) -> tuple[Array, float]:
    from scipy.optimize import minimize

    found = minimize(objective, initial, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 30})
    return found.x, found.fun
