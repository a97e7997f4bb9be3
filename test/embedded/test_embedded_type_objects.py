"""Descriptions of types for discovery: the same as CycloneDDS's own Python package makes of the same fields."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cyclonedds", reason="the embedded runtime's extra is not installed")

from cyclonedds.idl import make_idl_struct, types
from cyclonedds.idl._typesupport.DDS import XTypes

from embedded_ros.messages import definitions
from embedded_ros.messages.fields import PRIMITIVES, Field
from embedded_ros.wire import type_objects
from embedded_ros.wire.participant import REQUEST_HEADER

XCDR2 = b"\0\7\0\0"
_made: dict[Any, Any] = {}


def idl_struct(name: str, fields: tuple[Field, ...] | None = None, prefix: Any = ()) -> Any:
    """CycloneDDS's class of a message."""
    key = (name, fields, prefix)
    if key not in _made:
        members = {field: getattr(types, kind) for field, kind in prefix}
        own = definitions().fields(name) if fields is None else fields
        members.update((field.name, _member(field)) for field in own)
        package, kind, short = name.split("/")
        _made[key] = make_idl_struct(f"{short}_", f"{package}.{kind}.dds_.{short}_", members, dataclassify=False)
    return _made[key]


def _member(field: Field) -> Any:
    inner: Any
    if field.nested:
        inner = idl_struct(field.nested)
    elif field.kind == "string":
        inner = types.bounded_str[field.bound] if field.bound else str
    else:
        inner = bool if field.kind == "bool" else getattr(types, field.kind)
    if field.size is not None:
        return types.array[inner, field.size]
    if field.capacity is not None:
        return types.sequence[inner, field.capacity] if field.capacity else types.sequence[inner]
    return inner


def expected(idl_type: Any) -> tuple[bytes, bytes]:
    idl_type.__idl__.fill_type_data()
    return idl_type.__idl__._xt_bytedata


# CycloneDDS's package lists dependencies in the order of a set, so bytes cannot be compared where there are several.


def information(data: bytes) -> list[Any]:
    found = XTypes.TypeInformation.deserialize(XCDR2 + data)
    return [
        (repr(part.typeid_with_size), part.dependent_typeid_count, sorted({repr(d) for d in part.dependent_typeids}))
        for part in (found.minimal, found.complete)
    ]


def mapping(data: bytes) -> list[Any]:
    found = XTypes.TypeMapping.deserialize(XCDR2 + data)
    pairs = (
        found.identifier_object_pair_minimal,
        found.identifier_object_pair_complete,
        found.identifier_complete_minimal,
    )
    return [sorted({repr(pair) for pair in part}) for part in pairs]


def names() -> list[str]:
    known = definitions()
    messages = [f"{package}/msg/{name}" for package in known.packages() for name in known.names(package, "msg")]
    return sorted(messages) + sorted(f"{name}_{part}" for name in known.services for part in ("Request", "Response"))


@pytest.mark.parametrize("package", sorted({name.partition("/")[0] for name in names()}))
def test_every_type_is_described_as_cyclonedds_describes_it(package: str) -> None:
    for name in names():
        if name.startswith(f"{package}/"):
            prefix = REQUEST_HEADER if "/srv/" in name else ()
            mine = type_objects.topic_type(name, prefix)
            theirs = idl_struct(name, None, prefix)
            information_bytes, mapping_bytes = expected(theirs)
            assert mine.idl_transformed_typename == theirs.__idl__.idl_transformed_typename
            assert mine.data_type_props == theirs.__idl__.data_type_props
            assert mine.supported_versions == theirs.__idl__.supported_versions
            assert mapping(mine._xt_bytedata[1]) == mapping(mapping_bytes), name
            if len(information_bytes) == len(mine._xt_bytedata[0]):  # else theirs lists a dependency twice
                assert information(mine._xt_bytedata[0]) == information(information_bytes), name


LENGTHS = st.sampled_from([1, 2, 255, 256, 60_000])  # CycloneDDS has no more than 65536
KINDS = st.sampled_from([*PRIMITIVES, "string", "geometry_msgs/msg/Point"])


@st.composite
def fields(draw: Any) -> tuple[Field, ...]:
    found = []
    for index in range(draw(st.integers(1, 4))):
        kind = draw(KINDS)
        nested = kind if "/" in kind else ""
        form = draw(st.sampled_from(["single", "array", "sequence", "bounded"]))
        size = draw(LENGTHS) if form == "array" else None
        capacity = draw(LENGTHS) if form == "bounded" else 0 if form == "sequence" else None
        bound = draw(st.sampled_from([0, 1, 255, 256, 70_000])) if kind == "string" else 0
        found.append(
            Field(f"field_{index}" * draw(st.integers(1, 3)), "" if nested else kind, nested, size, capacity, bound)
        )
    return tuple(found)


@settings(deadline=None, max_examples=60)
@given(fields())
def test_any_fields_are_described_as_cyclonedds_describes_them(made: tuple[Field, ...]) -> None:
    theirs = information(expected(idl_struct("made_up/msg/Any", made))[0])
    for kind, part in ((0xF1, theirs[0]), (0xF2, theirs[1])):
        found = type_objects.type_object("made_up/msg/Any", made, kind)
        value = repr(found.identifier[1:])
        assert value in part[0]
        assert f"typeobject_serialized_size={len(found.serialized)})" in part[0]


def test_the_package_cyclonedds_is_there_for_others() -> None:
    code = (
        "import embedded_ros.wire.dds, sys\n"
        "assert 'cyclonedds.domain' not in sys.modules\n"
        "import cyclonedds\n"
        "assert cyclonedds.internal.DDS and cyclonedds.domain.DomainParticipant\n"
        "from cyclonedds import idl, sub\n"
        "from cyclonedds.topic import Topic\n"
        "assert 'idl' in cyclonedds.__all__ and not hasattr(cyclonedds, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)
