"""Rigid transforms as (translation, quaternion) of floats; quaternions x, y, z, w, Hamilton's product."""

from __future__ import annotations

import math

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Rigid = tuple[Vector, Quaternion]

IDENTITY: Rigid = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
# Above this cosine of the angle between two quaternions great circle and chord are the same to double precision.
_NEARLY_ONE = 1.0 - 1e-12


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """Rotation b, then a."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def conjugate(q: Quaternion) -> Quaternion:
    """The opposite rotation."""
    return (-q[0], -q[1], -q[2], q[3])


def rotated(q: Quaternion, v: Vector) -> Vector:
    """Vector after the rotation."""
    x, y, z, _ = product(product(q, (*v, 0.0)), conjugate(q))
    return (x, y, z)


def composed(a: Rigid, b: Rigid) -> Rigid:
    """Transform b, then a."""
    x, y, z = rotated(a[1], b[0])
    return (a[0][0] + x, a[0][1] + y, a[0][2] + z), product(a[1], b[1])


def inverted(a: Rigid) -> Rigid:
    """The opposite transform."""
    back = conjugate(a[1])
    x, y, z = rotated(back, a[0])
    return (-x, -y, -z), back


def normalized(q: Quaternion) -> Quaternion:
    """Of length one."""
    norm = math.sqrt(sum(part * part for part in q))
    return (q[0] / norm, q[1] / norm, q[2] / norm, q[3] / norm)


def interpolated(a: Rigid, b: Rigid, fraction: float) -> Rigid:
    """Between a (0) and b (1): straight in translation, along the shorter great circle (slerp) in rotation."""
    translation = tuple(p + fraction * (q - p) for p, q in zip(a[0], b[0], strict=True))
    cosine = sum(p * q for p, q in zip(a[1], b[1], strict=True))
    sign = -1.0 if cosine < 0.0 else 1.0
    cosine = min(abs(cosine), 1.0)
    if cosine > _NEARLY_ONE:
        weight_a, weight_b = 1.0 - fraction, fraction
    else:
        angle = math.acos(cosine)
        weight_a, weight_b = (
            math.sin((1.0 - fraction) * angle) / math.sin(angle),
            math.sin(fraction * angle) / math.sin(angle),
        )
    rotation = tuple(weight_a * p + sign * weight_b * q for p, q in zip(a[1], b[1], strict=True))
    return translation, normalized(rotation)  # type: ignore[return-value,arg-type]
