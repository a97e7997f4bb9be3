"""Why there is no transform."""

from __future__ import annotations


class TransformException(Exception):
    """Base of all below."""


class LookupException(TransformException):
    """A frame that nobody told of."""


class ConnectivityException(TransformException):
    """Two frames without a common ancestor."""


class ExtrapolationException(TransformException):
    """A time before or after what is known."""


class InvalidArgumentException(TransformException):
    """A question without meaning."""


class TimeoutException(TransformException):
    """No answer in time."""
