"""CycloneDDS for Python 0.10 with version 11's private functions: the one that Linux distributions have a library for.

What is different then: types are announced by name only, since 0.10 cannot read the type objects that 11 makes; and
nobody checks whether bytes that are written, or come in, are a message of the topic's type: the codec does, when read.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from functools import cache
from typing import Any

_XCDR1 = 1


def is_older(private: Any) -> bool:
    """Whether the extension module is of a version before 11."""
    return not hasattr(private, "ddspy_get_matched_publication_data")


class _Type:
    """A message type as 0.10 takes it."""

    def __init__(self, name: str) -> None:
        self.idl_transformed_typename = name
        self.keyless = True
        self.version_support = _XCDR1
        self._xt_bytedata = None
        self.__idl__ = self


_type = cache(_Type)


class Functions:
    """What the wire needs, called as in version 11."""

    def __init__(self, library: Any, private: Any) -> None:
        self._private = private
        self.ddspy_write = private.ddspy_write
        self.ddspy_take_endpoint = private.ddspy_take_endpoint
        self.ddspy_take_participant = private.ddspy_take_participant
        self.ddspy_get_matched_publication_data = _matched_data(library, "dds_get_matched_publication_data")
        self.ddspy_get_matched_subscription_data = _matched_data(library, "dds_get_matched_subscription_data")

    def ddspy_topic_create(self, participant: int, topic: str, described: Any, qos: None, listener: None) -> int:
        """Entity of a topic, or a negative code."""
        of_0_10 = _type(described.idl_transformed_typename)
        code: int = self._private.ddspy_topic_create(participant, topic, of_0_10, qos, listener)
        return code

    def ddspy_take(self, reader: int, _states: int, limit: int) -> Any:
        """Samples in all states: there is no mask."""
        return self._private.ddspy_take(reader, limit)


def _matched_data(library: Any, name: str) -> Callable[[int, int, Callable[[bytes], Any], Any], Any]:
    data, free = getattr(library, name), library.dds_builtintopic_free_endpoint
    data.restype, data.argtypes = ct.c_void_p, (ct.c_int32, ct.c_uint64)
    free.restype, free.argtypes = None, (ct.c_void_p,)

    def matched(entity: int, handle: int, construct: Callable[[bytes], Any], _qos: Any) -> Any:
        endpoint = data(entity, handle)
        if not endpoint:
            return None
        try:
            return construct(ct.string_at(endpoint, 16))  # its key stands first
        finally:
            free(endpoint)

    return matched
