"""Peer of the salp's kernels: the recursion over links in NumPy."""

from __future__ import annotations

import numpy as np

from benchmarks.measuring import Array
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain


class LinkByLink:
    """The recursion of `chain_kernels`, O(N), with one 3 x 3 product a link for the whole batch."""

    def __init__(self, chain: Chain) -> None:
        links = chain.links
        n = len(links)
        lengths, angles = links[:, kernels.LENGTH], links[:, kernels.WHEEL_ANGLE]
        drag = links[:, kernels.DRAG : kernels.DRAG + 9].reshape(n, 3, 3)
        x, y = 0.5 * lengths + links[:, kernels.WHEEL_X], links[:, kernels.WHEEL_Y]
        cosine, sine = np.cos(angles), np.sin(angles)
        to_wheel = np.zeros((n, 3, 3))
        to_wheel[:, 0] = np.column_stack([cosine, sine, sine * x - cosine * y])
        to_wheel[:, 1] = np.column_stack([-sine, cosine, cosine * x + sine * y])
        to_wheel[:, 2, 2] = 1.0
        self._count, self._lengths, self._joint_drag = n, lengths, links[:, kernels.JOINT_DRAG]
        self._drag = to_wheel.swapaxes(1, 2) @ drag @ to_wheel
        self._thrust = to_wheel[:, 0] * drag[:, :1, 0]
        self._wheel = np.zeros((n, 2, 3))  # a link's twist at its rear end to its wheel's velocity
        self._wheel[:, 0, 0] = self._wheel[:, 1, 1] = 1.0
        self._wheel[:, 0, 2], self._wheel[:, 1, 2] = -y, x

    def __call__(self, joint_angles: Array, controls: Array) -> Array:
        """(..., N + 2) velocity of the base frame and joint rates from joint angles (..., N - 1), rim speeds (N,)."""
        n, leading = self._count, joint_angles.shape[:-1]
        cosine, sine = np.cos(joint_angles), np.sin(joint_angles)
        # Twist of a link's rear end to that of the next one's, whose joint stands, along its axes.
        onward = np.zeros((*leading, n - 1, 3, 3))
        onward[..., 0, 0] = onward[..., 1, 1] = cosine
        onward[..., 0, 1], onward[..., 1, 0] = sine, -sine
        onward[..., 0, 2], onward[..., 1, 2] = sine * self._lengths[:-1], cosine * self._lengths[:-1]
        onward[..., 2, 2] = 1.0
        thrust = self._thrust * controls[:, None]
        drag, push = self._drag[-1], thrust[-1]
        gains, moments = [], []
        for i in range(n - 1, 0, -1):
            column = drag[..., :, 2]
            gain = column / (drag[..., 2, 2] + self._joint_drag[i - 1])[..., None]
            moment = push[..., 2] / (drag[..., 2, 2] + self._joint_drag[i - 1])
            gains.append(gain)
            moments.append(moment)
            back = np.swapaxes(onward[..., i - 1, :, :], -1, -2)
            drag = (
                back @ (drag - gain[..., :, None] * column[..., None, :]) @ onward[..., i - 1, :, :] + self._drag[i - 1]
            )
            push = (back @ (push - column * moment[..., None])[..., None])[..., 0] + thrust[i - 1]
        twist = np.linalg.solve(drag, push[..., None])[..., 0]
        rates = np.empty((*leading, n + 2))
        headings = np.zeros((*leading, n))
        np.cumsum(joint_angles, axis=-1, out=headings[..., 1:])
        along = np.cos(headings), np.sin(headings)
        total_x = total_y = total_turn = 0.0
        for i in range(n):
            if i > 0:
                twist = (onward[..., i - 1, :, :] @ twist[..., None])[..., 0]
                rates[..., 2 + i] = moments[n - 1 - i] - np.sum(gains[n - 1 - i] * twist, axis=-1)
                twist[..., 2] += rates[..., 2 + i]
            wheel = twist @ self._wheel[i].T
            total_x = total_x + along[0][..., i] * wheel[..., 0] - along[1][..., i] * wheel[..., 1]
            total_y = total_y + along[1][..., i] * wheel[..., 0] + along[0][..., i] * wheel[..., 1]
            total_turn = total_turn + twist[..., 2]
        mean = headings.mean(axis=-1)
        rates[..., 0] = (np.cos(mean) * total_x + np.sin(mean) * total_y) / n
        rates[..., 1] = (np.cos(mean) * total_y - np.sin(mean) * total_x) / n
        rates[..., 2] = total_turn / n
        return rates
