"""Services over two topics: requests and replies, each with the asker's number and a sequence number in front."""

from __future__ import annotations

import secrets
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from embedded_ros.wire.endpoints import Reader, Writer

# Position of the service's own data: header, guid, sequence. The latter's 16 bytes leave alignment as it is.
_BODY = 20
_NUMBERS = {0: struct.Struct(">Qq"), 1: struct.Struct("<Qq")}
_LONGEST_WAIT_S = 0.1


class RequestId(NamedTuple):
    """Who asked, and which of its questions."""

    client: int
    sequence: int
    writer_gid: bytes


def _joined(client: int, sequence: int, payload: bytes) -> bytes:
    return payload[:4] + _NUMBERS[payload[1] & 1].pack(client, sequence) + payload[4:]


def _split(payload: bytes) -> tuple[int, int, bytes]:
    if len(payload) < _BODY:
        return 0, 0, payload[:4]  # which is no message, and whoever reads it says so
    client, sequence = _NUMBERS[payload[1] & 1].unpack_from(payload, 4)
    return client, sequence, payload[:4] + payload[_BODY:]


class _Service:
    """What client and server share; a waitset waits for its reader."""

    def __init__(self, name: str, reader: Reader, writer: Writer, on_close: Callable[[Any], None]) -> None:
        self.name = name
        self.reader = reader
        self.writer = writer
        self.condition = reader.condition
        self.gids = (reader.gid, writer.gid)
        self.closed = False
        self._on_close = on_close

    def _taken(self, limit: int) -> list[tuple[int, int, bytes, Any]]:
        found = []
        for sample in self.reader.take(limit):
            client, sequence, payload = _split(sample.payload)
            found.append((client, sequence, payload, sample))
        return found

    def close(self) -> None:
        """Take it off the graph; once is enough, twice is allowed."""
        if not self.closed:
            self.closed = True
            self._on_close(self)
            self.reader.close()
            self.writer.close()


class ServiceServer(_Service):
    """Takes requests and answers them."""

    def take(self, limit: int = 64) -> list[tuple[RequestId, bytes]]:
        """Requests that came: (id to answer with, CDR of the request with its header)."""
        return [
            (RequestId(client, sequence, sample.writer_gid), payload)
            for client, sequence, payload, sample in self._taken(limit)
        ]

    def reply(self, request_id: RequestId, payload: bytes) -> bool:
        """Answer a request with CDR of the response; False where nobody can get it any more.

        A request can come before the asker's reader is known here, and a reply would then be lost: wait for it up to
        0.1 s.
        """
        until = time.monotonic() + _LONGEST_WAIT_S
        prefix = request_id.writer_gid[:12]
        while any(prefix) and not any(gid[:12] == prefix for gid in self.writer.matched_gids()):
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return self.writer.write(_joined(request_id.client, request_id.sequence, payload))


class ServiceClient(_Service):
    """Asks and takes the answers; answers to others are passed over."""

    def __init__(self, name: str, reader: Reader, writer: Writer, on_close: Callable[[Any], None]) -> None:
        super().__init__(name, reader, writer, on_close)
        self._number = secrets.randbits(63) | 1
        self._sequence = 0
        self._lock = threading.Lock()

    def call(self, payload: bytes) -> int:
        """Send a request (CDR with header); returns the sequence number that its answer will carry."""
        with self._lock:
            self._sequence += 1
            sequence = self._sequence
        self.writer.write(_joined(self._number, sequence, payload))
        return sequence

    def take(self, limit: int = 64) -> list[tuple[int, bytes]]:
        """Answers that came: (sequence number of the request, CDR of the response with its header)."""
        return [(sequence, payload) for client, sequence, payload, _ in self._taken(limit) if client == self._number]

    def is_ready(self) -> bool:
        """Whether a server is there that takes requests from here and whose answers come here."""
        servers = {gid[:12] for gid in self.writer.matched_gids()}
        return bool(servers) and not servers.isdisjoint(gid[:12] for gid in self.reader.matched_gids())
