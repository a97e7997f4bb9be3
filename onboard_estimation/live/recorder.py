"""Recording topics into a bag: raw messages as they came, each with its time of reception and of publication.

One thread reads out what has arrived, again and again, and one writes, with a queue between them, so that a slow disk
does not make subscriptions overflow; no message wakes the node. Also a node for launch files: `recorder`, with the
parameters `output`, `storage`, `topics`, `regex`, `exclude_regex` and `all`, and `source`: what made the messages
(`simulated`), for the bag's metadata.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from onboard_estimation.bags.writing import BagWriter, standard_definition
from onboard_estimation.base.errors import UserError
from onboard_estimation.live.discovery import absolute, is_hidden, publishers
from onboard_estimation.live.losses import Losses
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.qos import RECORDING_DEPTH, matching, offer_of, type_hash
from onboard_estimation.live.session import parameter, run_node
from onboard_estimation.live.signals import StopRequest

_SEARCH_PERIOD_S = 0.1
_WRITE_PERIOD_S = 0.02
_READ_PERIOD_S = 0.005
_TYPE = re.compile(r"[a-z][a-z0-9_]*/msg/[A-Za-z]\w*", re.ASCII)


@dataclass(frozen=True)
class Selection:
    """Which topics are recorded; rules as rosbag2 has them.

    Attributes
    ----------
    everything
        All topics that have a publisher.
    topics
        Full names.
    regex, exclude_regex
        Searched for in the full name, empty: none. `exclude_regex` wins over the others.
    include_hidden
        Also topics of which a part of the name starts with an underscore.
    """

    everything: bool = False
    topics: tuple[str, ...] = ()
    regex: str = ""
    exclude_regex: str = ""
    include_hidden: bool = False

    def __post_init__(self) -> None:
        for option, pattern in (("--regex", self.regex), ("--exclude-regex", self.exclude_regex)):
            try:
                re.compile(pattern)
            except re.error as error:
                raise UserError(f"{option} {pattern}: no regular expression: {error}") from None
        object.__setattr__(self, "topics", tuple(absolute(topic) for topic in self.topics))
        if not (self.everything or self.topics or self.regex):
            raise UserError("nothing to record: name topics, or give --all or --regex PATTERN")

    def takes(self, topic: str) -> bool:
        """Whether a topic is recorded."""
        wanted = self.everything or topic in self.topics or (self.regex and re.search(self.regex, topic))
        excluded = self.exclude_regex and re.search(self.exclude_regex, topic)
        return bool(wanted) and not excluded and (self.include_hidden or not is_hidden(topic))


@dataclass
class Recorded:
    """What a recording holds so far.

    Attributes
    ----------
    counts
        Messages by topic.
    lost
        Messages that were published and not received; None where the middleware does not tell.
    notes
        What a person should know, a sentence each.
    """

    counts: dict[str, int] = field(default_factory=dict)
    lost: int | None = None
    notes: list[str] = field(default_factory=list)
    size_bytes: int = 0
    duration_s: float = 0.0

    @property
    def message_count(self) -> int:
        """On all topics."""
        return sum(self.counts.values())


class Recorder:
    """Subscribes to what a selection takes, also what appears later, and writes it into a bag.

    `run` writes; the node has to be spun by another thread meanwhile.

    Parameters
    ----------
    node
        A `QuietNode`.
    """

    def __init__(self, node: Any, bag: BagWriter, selection: Selection) -> None:
        self.recorded = Recorded()
        self._node = node
        from onboard_estimation.live.read_out import Raw, read_out  # needs ROS 2

        node.silent, self._read_out = Raw(), read_out
        self._bag = bag
        self._selection = selection
        self._queue: deque[tuple[tuple[str, str], int, int, bytes]] = deque()
        self._topics: dict[str, _Topic] = {}
        self._refused: set[str] = set()
        self._over = threading.Event()
        self._simulated_time = bool(node.get_parameter("use_sim_time").value)

    def run(self, stop: StopRequest, show: Callable[[Recorded], None] = lambda recorded: None) -> None:
        """Record until a stop is requested; then write what has arrived and close the bag.

        Raises
        ------
        UserError
            The disk is full, or fails; how many of the messages the bag holds, as far as it can be read.
        """
        started = searched = time.monotonic()
        self._search()
        reading = threading.Thread(target=self._read, name="reading", daemon=True)
        reading.start()
        try:
            while not stop:
                now = time.monotonic()
                if now - searched >= _SEARCH_PERIOD_S:
                    searched = now
                    self._search()
                self._write()
                self.recorded.duration_s = now - started
                show(self.recorded)
                time.sleep(_WRITE_PERIOD_S)
            self._end(reading)
            self._finish()
        except UserError as error:
            self._end(reading)
            self._bag.abort()
            taken = self.recorded.message_count + len(self._queue)
            raise UserError(f"{error}; {_readable(self._bag.path)} of {taken} messages can be read from it") from error

    def missing(self) -> list[str]:
        """Topics that were asked for by name and have not appeared."""
        return [topic for topic in self._selection.topics if topic not in self._topics]

    def _end(self, reading: threading.Thread) -> None:
        """Once what had arrived by now was read."""
        self._over.set()
        reading.join()

    def _finish(self) -> None:
        for topic in self._topics.values():
            self._node.destroy_subscription(topic.subscription)
        self._write()
        self._bag.close()
        self.recorded.size_bytes = self._bag.size_bytes
        losses = [topic.losses for topic in self._topics.values()]
        counted = [one.count for one in losses if one.count is not None]
        self.recorded.lost = sum(counted) if counted and all(one.are_counted for one in losses) else None

    def _read(self) -> None:
        """Read out all topics until the end, and what had arrived by then."""
        while True:
            ends = self._over.wait(_READ_PERIOD_S)
            for topic in list(self._topics.values()):
                for data, information in self._read_out(topic.subscription, RECORDING_DEPTH):
                    topic.receive(data, information)
            if ends:
                return

    def _search(self) -> None:
        """Subscribe to topics that have appeared."""
        for name, types in self._node.get_topic_names_and_types():
            if name in self._topics or name in self._refused or not self._selection.takes(name):
                continue
            endpoints = publishers(self._node, name)
            if not endpoints:
                continue
            try:
                if len(types) != 1:
                    raise UserError(f"it has more than one type ({', '.join(sorted(types))})")
                kind = interface_class(types[0])
            except UserError as refusal:
                self._refused.add(name)
                self.recorded.notes.append(f"{name} is not recorded: {refusal}")
            else:
                self._subscribe(name, types[0], kind, endpoints)

    def _subscribe(self, name: str, message_type: str, kind: Any, endpoints: list[Any]) -> None:
        offers = list(dict.fromkeys(offer_of(endpoint) for endpoint in endpoints))
        hash_of_type = next((text for endpoint in endpoints if (text := type_hash(endpoint))), None)
        text, standard_hash = definition(message_type)
        if not text:
            self.recorded.notes.append(f"{name}: the bag does not hold the definition of {message_type}")
        self._bag.add_topic(
            name, message_type, definition=text, type_hash=hash_of_type or standard_hash, offered=offers
        )
        if len({(offer.reliability, offer.durability) for offer in offers}) > 1:
            self.recorded.notes.append(f"{name}: its publishers differ in reliability or durability")
        stamp = self._stamp if self._simulated_time else None
        topic = _Topic(self._queue.append, (name, message_type), stamp)
        qos = matching(endpoints, RECORDING_DEPTH)
        topic.subscription = topic.losses.listen(self._node, kind, name, qos, topic.receive)
        self.recorded.counts[name] = 0
        self._topics[name] = topic

    def _stamp(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    def _write(self) -> None:
        """Write what has arrived."""
        queue, counts = self._queue, self.recorded.counts
        while queue:
            (topic, message_type), log_time_ns, published_ns, data = queue.popleft()
            self._bag.write_serialized(topic, message_type, log_time_ns, data, published_ns)
            counts[topic] += 1
        self._bag.flush()
        self.recorded.size_bytes = self._bag.size_bytes


def _readable(path: Path) -> int:
    """Messages that a bag holds which was cut off."""
    from onboard_estimation.bags.bag import open_bag

    try:
        with open_bag(path) as bag:
            return sum(1 for _ in bag.messages())
    except UserError:  # not even its head is there
        return 0


class _Topic:
    """A subscription that only puts messages into the writer's queue."""

    def __init__(self, put: Callable[[Any], None], named: tuple[str, str], stamp: Callable[[], int] | None) -> None:
        self.losses = Losses()
        self._put = put
        self._named = named  # topic and type
        self._stamp = stamp
        self.subscription: Any = None

    def receive(self, data: bytes, information: Any) -> None:
        """Take a message."""
        self.losses.see(information)
        arrived = information.get("received_timestamp") or time.time_ns()
        received = arrived if self._stamp is None else self._stamp()
        published = information.get("source_timestamp") or received
        self._put((self._named, max(received, 0), max(published, 0), bytes(data)))


@cache
def definition(message_type: str) -> tuple[str, str | None]:
    """The text of the type and of all types in it; empty where neither the standard types nor ament have it.

    And its hash, of a standard one; that of another only its publishers can tell.
    """
    with suppress(ValueError):
        return standard_definition(message_type)
    store, waiting = get_typestore(Stores.ROS2_JAZZY), [message_type]
    found: dict[str, Any] = {}
    try:
        while waiting:
            name = waiting.pop()
            if name not in found and name not in store.fielddefs:
                found |= get_types_from_msg(_installed(name), name)
                waiting += _TYPE.findall(repr(found[name]))
        store.register(found)
        return store.generate_msgdef(message_type, ros_version=2)[0], None
    except Exception:  # no such file, or whatever the parser makes of a text that it does not understand
        return "", None


def _installed(message_type: str) -> str:
    """The `.msg` file of a package that ament knows."""
    from ament_index_python.packages import get_package_share_directory

    package, _, name = message_type.split("/")
    return (Path(get_package_share_directory(package)) / "msg" / f"{name}.msg").read_text("utf-8")


def main(arguments: list[str] | None = None) -> None:
    """The node `recorder`."""
    run_node("recorder", _run_as_node, arguments)


def _run_as_node(node: Any, stop: StopRequest) -> None:
    output, storage = parameter(node, "output", ""), parameter(node, "storage", "mcap")
    topics, everything = parameter(node, "topics", ()), parameter(node, "all", False)
    regex, exclude, source = (parameter(node, name, "") for name in ("regex", "exclude_regex", "source"))
    if not output:
        raise UserError("parameter output is empty: it names the bag to write")
    selection = Selection(everything, topics, regex, exclude)
    bag = BagWriter(output, storage, {"source": source} if source else {}, grows=True)
    recorder = Recorder(node, bag, selection)
    node.get_logger().info(f"recording to {output}")
    recorder.run(stop)
    node.get_logger().info(summary(output, recorder.recorded))


def summary(path: Path | str, recorded: Recorded) -> str:
    """One line on a finished recording."""
    unknown = "; what was lost is not counted by this middleware" if recorded.message_count else ""
    losses = {None: unknown, 0: "; none lost"}.get(recorded.lost, f"; {recorded.lost} LOST before they were received")
    return (
        f"{path}: {recorded.message_count} messages on {len(recorded.counts)} topics, "
        f"{recorded.size_bytes / 1e6:.1f} MB in {recorded.duration_s:.1f} s{losses}"
    )


if __name__ == "__main__":
    main()
