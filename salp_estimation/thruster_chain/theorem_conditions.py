"""The conditions of the paper's Theorem 4, and what its proof leaves open.

Theorem 4: with u_i sin(psi_i) and u_i + cos(theta_i + psi_i) f_x,i + sin(theta_i + psi_i) f_y,i other than zero for
every link, all states are locally observable to IMUs of the `paper` model. Its proof needs that no row of
F_ij = K_ij sin(theta_i - theta_j - psi_j), equation (53), is zero, and gets there (Theorem 3) by permuting the columns
of K without the sine's indices. That step fails: with N = 3 and equal masses K_22 = 0, and at
theta = (-psi_1, 0, -psi_3) row 2 of F is zero while both conditions hold. So F is given beside them, and what decides
is the rank of `lie_derivatives`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onboard_estimation.measurement import Matrix
from salp_estimation.thruster_chain.chain_jets import JetState, move
from salp_estimation.thruster_chain.chain_model import THRUST_X, THRUST_Y
from salp_estimation.thruster_chain.jets import Jet
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks


@dataclass(frozen=True, eq=False)
class Conditions:
    """At K instants, per link; zero is where a condition fails.

    Attributes
    ----------
    normal_n
        (K, N) thrust across the link, u sin(psi), N.
    net_n
        (K, N) all external forces along the thrust's direction, thrust included, N.
    turning
        (K, N) largest element of the link's row of F over the thrusters that are on: how much thrust can turn it.
    """

    normal_n: Matrix
    net_n: Matrix
    turning: Matrix

    def met(self, least_n: float = 0.0) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """(K, N) whether both conditions hold by more than `least_n`."""
        return (np.abs(self.normal_n) > least_n) & (np.abs(self.net_n) > least_n)


def theorem_conditions(chain: ObservedChain, states: ArrayLike, thrust_n: ArrayLike) -> Conditions:
    """From states (K, 5N + 2) and commanded thrust (K, N)."""
    z, command = np.atleast_2d(np.asarray(states, float)), np.atleast_2d(np.asarray(thrust_n, float))
    at, links = blocks(chain.count), chain.model.links
    thrust = command * z[:, at.gain]
    psi = np.arctan2(links[:, THRUST_Y], links[:, THRUST_X])
    direction = z[:, at.theta] + psi
    fx, fy = (force.value for force in move(chain, JetState(*(Jet({0: z[:, one]}) for one in at)), command, 1.0).force)
    net = np.cos(direction) * fx + np.sin(direction) * fy
    between = z[:, at.theta][:, :, None] - direction[:, None, :]
    rows = np.abs(_k(z[:, at.mass]) * np.sin(between)) * (thrust != 0.0)[:, None, :]
    return Conditions(thrust * np.sin(psi), net, rows.max(axis=2))


def _k(mass: Matrix) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """K = A^T (D M D^T)^-1 D of equation (8), times M, (K, N, N): dimensionless."""
    count = mass.shape[1]
    added, differenced = np.eye(count - 1, count) + np.eye(count - 1, count, 1), np.eye(count - 1, count)
    differenced = differenced - np.eye(count - 1, count, 1)
    weighted = differenced / mass[:, None, :]
    return added.T @ np.linalg.solve(weighted @ differenced.T, weighted)
