"""A signal whose handler raises, while C code makes Python objects: the process goes on, and the handler is heard.

Run as a script, this file is the process that is interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from embedded_ros.messages import message_class, support
from embedded_ros.wire import Participant, Qos, WaitSet
from embedded_ros.wire.interruption import uninterrupted

STRING = support(message_class("std_msgs/msg/String"))
ROUNDS = 300


class Alarm(Exception):
    """What the handler raises."""


def be_interrupted() -> None:
    """Take bursts of messages, with a timer's signal somewhere in each taking."""

    def handle(number: int, frame: object) -> None:
        uninterrupted.after(raise_alarm)

    def raise_alarm() -> None:
        raise Alarm

    participant = Participant()
    node = participant.add_node("/there", "peer")
    reader = participant.create_reader("/burst", STRING, Qos(depth=0), node)
    writer = participant.create_writer("/burst", STRING, Qos(depth=0), node)
    waitset = WaitSet(participant)
    waitset.attach(reader)
    payload = STRING.serialize(STRING.cls(data="x"))
    signal.signal(signal.SIGALRM, handle)
    alarms = 0
    for number in range(ROUNDS):
        for _ in range(400):
            writer.write(payload)
        waitset.wait(1.0)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (20 + 7 * (number % 100)))
            reader.take(1000)
            while True:
                time.sleep(0.001)
        except Alarm:
            alarms += 1
    print(alarms, flush=True)


def test_a_handler_that_raises_waits_for_the_end_of_c_code() -> None:
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    words = [sys.executable, __file__]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100.0, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(ROUNDS), "")


if __name__ == "__main__":
    be_interrupted()
