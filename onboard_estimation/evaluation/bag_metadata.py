"""What `metadata.yaml` says of a bag of rosbag2. Nothing in it is trusted; of paths, only names are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.bag_blocks import MAX_TIME_NS, is_regular

METADATA = "metadata.yaml"

_MAX_BYTES = 8 * 2**20
_MAX_NODES = 100_000
_MAX_NUMBER_CHARACTERS = 64


@dataclass(frozen=True)
class BagMetadata:
    """What is used of a bag's metadata.

    Attributes
    ----------
    names
        Of the bag's files, without their folders.
    compressed_messages
        Each message is compressed on its own (rosbag2's compression mode `message`).
    custom_data
        What the recorder noted beside the standard fields.
    """

    names: tuple[str, ...] = ()
    distribution: str | None = None
    message_count: int | None = None
    compressed_messages: bool = False
    custom_data: dict[str, str] = field(default_factory=dict)


def read_metadata(folder: Path) -> tuple[BagMetadata, list[str]]:
    """What the bag's metadata.yaml says, and what is wrong with it."""
    if not is_regular(folder / METADATA):
        return BagMetadata(), [f"{METADATA} is missing (the recorder was killed, or it was not copied)"]
    try:
        path = folder / METADATA
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError
        information = bounded_yaml(path.read_text("utf-8"))["rosbag2_bagfile_information"]
        names, count = information["relative_file_paths"], information.get("message_count")
        distribution = information.get("ros_distro")
        if not isinstance(names, list):
            raise TypeError
        faults = []
        if not (count is None or (type(count) is int and 0 <= count <= MAX_TIME_NS)):
            count = None
            faults.append(f"{METADATA} is damaged (message_count)")
        return (
            BagMetadata(
                tuple(name for name in (Path(str(name)).name for name in names) if name),
                printable(str(distribution)) if distribution and distribution != "rosbags" else None,
                count,
                str(information.get("compression_mode") or "").lower() == "message",
                {str(key): str(value) for key, value in (information.get("custom_data") or {}).items()},
            ),
            faults,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return BagMetadata(), [f"{METADATA} is damaged"]


def bounded_yaml(text: str) -> Any:
    """Content of a YAML text out of a bag, with what could make it take for ever refused: ValueError."""
    try:
        # PyYAML's loader in Python: deep nesting makes the one in C crash the process.
        return _Loader(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("no YAML that a bag holds") from error


class _Loader(yaml.SafeLoader):
    """Without aliases, which make much of a little, with so many values at most, and without endless numbers."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        if self.check_event(yaml.AliasEvent) or self._nodes > _MAX_NODES:
            raise yaml.composer.ComposerError(None, None, "an alias, or too much", None)
        return super().compose_node(parent, index)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if (
            isinstance(node, yaml.ScalarNode)
            and not node.tag.endswith(":str")
            and len(node.value) > _MAX_NUMBER_CHARACTERS
        ):
            raise yaml.constructor.ConstructorError(None, None, "too long for its type", None)
        return super().construct_scalar(node)
