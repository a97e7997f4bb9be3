"""Quantiles of the chi-square distribution, without scipy: a node that needs nothing else of it does not load it.

The distribution function of n degrees of freedom at t is the regularised incomplete gamma function P(n/2, t/2).
"""

from __future__ import annotations

import math

_MOST_ROUNDS = 100
_MOST_TERMS = 100_000
_PRECISION = 2.0**-54


def chi_square_quantile(probability: float, degrees_of_freedom: int) -> float:
    """What a chi-square variable stays below with that probability, to 13 digits; infinite for a probability of one.

    Raises
    ------
    ValueError
        A probability outside [0, 1], or no degree of freedom.
    """
    if not 0.0 <= probability <= 1.0 or degrees_of_freedom < 1:
        raise ValueError(f"no quantile for probability {probability} and {degrees_of_freedom} degrees of freedom")
    if probability == 0.0:
        return 0.0
    if probability == 1.0:
        return math.inf
    a = 0.5 * degrees_of_freedom
    # The smaller of the two tails keeps its digits.
    upper = probability > 0.5
    wanted = 1.0 - probability if upper else probability
    low, high = 0.0, math.inf
    x = _first_guess(probability, a)
    for _ in range(_MOST_ROUNDS):
        lower_tail, upper_tail = _tails(a, x)
        excess = wanted - upper_tail if upper else lower_tail - wanted
        low, high = (low, min(high, x)) if excess > 0.0 else (max(low, x), high)
        density = math.exp((a - 1.0) * math.log(x) - x - math.lgamma(a))
        step = excess / density if density > 0.0 else math.inf
        # Halley's rule: Newton's, with the density's slope; bisection where it leads out of what encloses the quantile.
        step /= max(0.5, 1.0 - 0.5 * step * ((a - 1.0) / x - 1.0)) if math.isfinite(step) else 1.0
        following = x - step
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2.0 * x
        if abs(following - x) <= _PRECISION * x or following in (low, high):
            break
        x = following
    return 2.0 * x


def _first_guess(probability: float, a: float) -> float:
    """By Wilson and Hilferty, and where that is negative by the first term of the series."""
    tail = min(probability, 1.0 - probability)
    t = math.sqrt(-2.0 * math.log(tail))
    normal = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t))  # Abramowitz and Stegun 26.2.22
    normal = math.copysign(normal, probability - 0.5)
    cube_root = 1.0 - 1.0 / (9.0 * a) + normal / (3.0 * math.sqrt(a))
    if cube_root > 0.1:
        return float(a * cube_root**3)
    return max(math.exp((math.log(probability) + math.lgamma(a + 1.0)) / a), 1e-300)


def _tails(a: float, x: float) -> tuple[float, float]:
    """P(a, x) and Q(a, x) = 1 - P: by the series below the mean, else by the continued fraction (Lentz)."""
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        for k in range(1, _MOST_TERMS):
            term *= x / (a + k)
            total += term
            if term < _PRECISION * total:
                break
        return front * total, 1.0 - front * total
    b = x + 1.0 - a
    c, d = math.inf, 1.0 / b
    fraction = d
    for k in range(1, _MOST_TERMS):
        numerator = -k * (k - a)
        b += 2.0
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        fraction *= c * d
        if abs(c * d - 1.0) < 4.0 * _PRECISION:
            break
    return 1.0 - front * fraction, front * fraction
