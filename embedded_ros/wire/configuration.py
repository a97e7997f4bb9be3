"""Which domain, and who may be found there: ROS 2's environment variables as a configuration of CycloneDDS."""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import dataclass

from embedded_ros.errors import UserError
from embedded_ros.messages.definitions import distribution
from embedded_ros.wire import dds, loopback

_log = logging.getLogger(__name__)
RANGES = ("OFF", "LOCALHOST", "SUBNET", "SYSTEM_DEFAULT")
MAX_PARTICIPANTS = 120
_HIGHEST_DOMAIN = 232
_PEER = re.compile(r"[A-Za-z0-9_.:%\-]+")
# A writer that keeps all stops where this much is not acknowledged. CycloneDDS's own limit starts at 30 kB and shrinks
# to 1 kB while data is sent again, so that on a busy machine writes time out although every reader would keep up.
_FLOW = (
    "<Internal><Watermarks><WhcAdaptive>false</WhcAdaptive><WhcHighInit>64MB</WhcHighInit>"
    "<WhcHigh>64MB</WhcHigh><WhcLow>32MB</WhcLow></Watermarks></Internal>"
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BEFORE_RANGES = ("foxy", "galactic", "humble")


@dataclass(frozen=True)
class Discovery:
    """Which participants are looked for: a range of ROS_AUTOMATIC_DISCOVERY_RANGE and further addresses."""

    range: str = "LOCALHOST"
    peers: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, range_name: str | None = None) -> Discovery:
        """Range and peers of the environment; this machine only where nothing is set. Raises UserError."""
        asked = range_name or os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "")
        localhost_only = os.environ.get("ROS_LOCALHOST_ONLY", "")
        if not asked:
            opened = localhost_only == "0" and distribution() in _BEFORE_RANGES
            asked = "SUBNET" if opened else "LOCALHOST"
        if localhost_only == "1" and range_name is None:
            asked = "LOCALHOST"
        if asked.upper() not in RANGES:
            raise UserError(f"ROS_AUTOMATIC_DISCOVERY_RANGE is {asked!r}; it must be one of {', '.join(RANGES)}")
        peers = tuple(peer for peer in os.environ.get("ROS_STATIC_PEERS", "").split(";") if peer)
        for peer in peers:
            if not _PEER.fullmatch(peer):
                raise UserError(f"ROS_STATIC_PEERS holds {peer!r}, which is no address or host name")
        return cls(asked.upper(), peers)

    @property
    def stays_on_this_machine(self) -> bool:
        """Whether sockets are bound to the loopback interface, so that no other machine reaches this process."""
        return self.range == "OFF" or (self.range == "LOCALHOST" and all(peer in _LOOPBACK for peer in self.peers))

    def xml(self) -> str:
        """CycloneDDS's configuration; what the environment's CYCLONEDDS_URI says comes after it and prevails."""
        if self.range == "SYSTEM_DEFAULT":
            return ""
        general = discovery = ""
        if self.stays_on_this_machine:
            general += '<Interfaces><NetworkInterface address="127.0.0.1" multicast="false"/></Interfaces>'
        if self.range != "SUBNET":
            general += "<AllowMulticast>false</AllowMulticast>"
        if self.range == "OFF":
            discovery += f"<ParticipantIndex>none</ParticipantIndex><Tag>ros_discovery_off_{os.getpid()}</Tag>"
        else:
            discovery += "<ParticipantIndex>auto</ParticipantIndex>"
            discovery += f"<MaxAutoParticipantIndex>{MAX_PARTICIPANTS - 1}</MaxAutoParticipantIndex>"
            peers = self.peers if self.range == "SUBNET" else ("localhost", *self.peers)
            if peers:
                discovery += "<Peers>" + "".join(f'<Peer address="{peer}"/>' for peer in peers) + "</Peers>"
        return (
            '<CycloneDDS><Domain Id="any">'
            f"<General>{general}</General><Discovery>{discovery}</Discovery>{_FLOW}"
            "</Domain></CycloneDDS>"
        )


def domain_of_environment() -> int:
    """ROS_DOMAIN_ID, 0 where it is not set. Raises UserError."""
    text = os.environ.get("ROS_DOMAIN_ID", "").strip()
    if not text:
        return 0
    if not text.isdecimal() or int(text) > _HIGHEST_DOMAIN:
        raise UserError(f"ROS_DOMAIN_ID is {text!r}; it must be a number from 0 to {_HIGHEST_DOMAIN}")
    return int(text)


class Domains:
    """The domains of this process; each is configured once, by its first participant."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[int, Discovery, int]] = {}  # entity, discovery, users

    def acquire(self, domain_id: int, discovery: Discovery) -> None:
        """Configure a domain, or join it where it is open. Raises UserError."""
        if not 0 <= domain_id <= _HIGHEST_DOMAIN:
            raise UserError(f"domain {domain_id} does not exist; it must be a number from 0 to {_HIGHEST_DOMAIN}")
        with self._lock:
            entity, used, users = self._open.get(domain_id, (0, discovery, 0))
            if used != discovery:
                raise UserError(
                    f"domain {domain_id} is open with discovery range {used.range}; one process cannot use "
                    f"{discovery.range} in it as well"
                )
            if not users:
                configuration = ",".join(part for part in (discovery.xml(), os.environ.get("CYCLONEDDS_URI")) if part)
                before = loopback.sockets_open()
                entity = dds.create_domain(domain_id, configuration.encode())
                if entity < 0:
                    raise UserError(_refusal(domain_id, entity))
                if discovery.stays_on_this_machine and loopback.confine(loopback.sockets_open() - before):
                    _log.warning("sockets of domain %d may be reached from other machines", domain_id)
            self._open[domain_id] = (entity, used, users + 1)

    def release(self, domain_id: int) -> None:
        """Leave a domain; the last one closes it."""
        with self._lock:
            entity, used, users = self._open[domain_id]
            if users > 1:
                self._open[domain_id] = (entity, used, users - 1)
                return
            del self._open[domain_id]
            dds.delete(entity)


def _refusal(domain_id: int, code: int) -> str:
    """Why a domain does not open, as far as it can be told, and what to do."""
    if os.environ.get("CYCLONEDDS_URI"):
        hint = "look at CYCLONEDDS_URI"
    else:
        hint = (
            f"if {MAX_PARTICIPANTS} processes of this machine are in it, there is no room for more: end some, or set "
            "another ROS_DOMAIN_ID"
        )
    return f"CycloneDDS cannot open domain {domain_id} ({dds.DdsError(code, 'refused')}); {hint}"


DOMAINS = Domains()
