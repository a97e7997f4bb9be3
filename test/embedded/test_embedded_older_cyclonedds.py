"""CycloneDDS 0.10, for processors that 11 has no wheel for, is called as 11 is."""

from __future__ import annotations

import ctypes as ct
from types import SimpleNamespace
from typing import Any

from embedded_ros.wire import older_cyclonedds
from embedded_ros.wire.type_objects import topic_type

KEY = bytes(range(16))


class Call:
    """A C function that can be called as ctypes calls one."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.result


def test_0_10_is_told_from_11_by_its_functions() -> None:
    assert older_cyclonedds.is_older(SimpleNamespace(ddspy_take=None))
    assert not older_cyclonedds.is_older(SimpleNamespace(ddspy_get_matched_publication_data=None))


def test_functions_of_11_are_made_of_those_of_0_10() -> None:
    endpoint = ct.create_string_buffer(KEY + b"what follows", 64)
    private = SimpleNamespace(
        ddspy_take=Call([]), ddspy_write=Call(0), ddspy_topic_create=Call(7), ddspy_take_endpoint=Call([]),
        ddspy_take_participant=Call([]),
    )  # fmt: skip
    library = SimpleNamespace(
        dds_get_matched_publication_data=Call(ct.addressof(endpoint)),
        dds_get_matched_subscription_data=Call(None),
        dds_builtintopic_free_endpoint=Call(None),
    )
    functions = older_cyclonedds.Functions(library, private)

    assert functions.ddspy_take(3, 127, 64) == []
    assert private.ddspy_take.calls == [(3, 64)]

    described = topic_type("std_msgs/msg/String")
    assert functions.ddspy_topic_create(1, "rt/a", described, None, None) == 7
    assert functions.ddspy_topic_create(1, "rt/b", described, None, None) == 7
    first, second = (call[2] for call in private.ddspy_topic_create.calls)
    assert first is second  # CycloneDDS compares them
    assert (first.idl_transformed_typename, first.keyless) == ("std_msgs::msg::dds_::String_", True)
    assert first._xt_bytedata is None

    assert functions.ddspy_get_matched_publication_data(3, 9, lambda key, *_: key, None) == KEY
    assert library.dds_builtintopic_free_endpoint.calls == [(ct.addressof(endpoint),)]
    assert functions.ddspy_get_matched_subscription_data(3, 9, lambda key, *_: key, None) is None
    assert len(library.dds_builtintopic_free_endpoint.calls) == 1
