"""The doctor's second process: publishes a word on a topic until its standard input is closed."""

from __future__ import annotations

import select
import sys
import time

from onboard_estimation.live.session import graph_node
from onboard_estimation.live.types import interface_class

_PERIOD_S = 0.05
_AT_MOST_S = 30.0


def main() -> None:
    """`doctor_partner TOPIC WORD`."""
    topic, word = sys.argv[1:3]
    with graph_node("doctor_partner") as node:
        kind = interface_class("std_msgs/msg/String")
        publisher = node.create_publisher(kind, topic, 10)
        deadline = time.monotonic() + _AT_MOST_S
        while time.monotonic() < deadline:
            publisher.publish(kind(data=word))
            if select.select([sys.stdin], [], [], _PERIOD_S)[0]:
                return


if __name__ == "__main__":
    main()
