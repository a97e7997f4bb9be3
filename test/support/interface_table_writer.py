"""`python test/support/interface_table_writer.py jazzy` makes the table of a distribution's types anew."""

from __future__ import annotations

import sys

from embedded_ros.messages.fields import Field
from embedded_ros.messages.interface_table import HEADING, Types, path_of
from embedded_ros.messages.type_store import TypeStore


def written(types: Types) -> str:
    """Text of a table that holds these types."""
    blocks = []
    for name in sorted(types.names()):
        lines = [f"{name} {types.type_hash(name)}"]
        if name not in types.services:
            constants, fields = types.definition(name)
            lines += [f"{constant.kind} {constant.name}={constant.value}" for constant in constants]
            lines += [f"{_declared_type(field)} {field.name}" for field in fields]
        blocks.append("\n".join(lines))
    return HEADING + "\n\n".join(blocks) + "\n"


def _declared_type(field: Field) -> str:
    """Type as interface files have it, with the full name of a nested one: "float64[9]", "string<=8[<=3]"."""
    bound = f"<={field.bound}" if field.bound else ""
    inner = field.nested.replace("/msg/", "/") or f"{field.kind}{bound}"
    if field.size is not None:
        return f"{inner}[{field.size}]"
    if field.capacity is not None:
        return f"{inner}[<={field.capacity}]" if field.capacity else f"{inner}[]"
    return inner


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        path_of(asked).write_text(written(TypeStore(asked, has_type_hashes=True)), "utf-8")
