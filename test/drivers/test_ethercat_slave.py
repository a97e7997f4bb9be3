"""The emulated slave by datagrams alone: states and their errors, mailbox, EEPROM, sensors to the count, faults."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ethercat_datagrams import Datagram, encode, parse
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.emulators.ethercat import slave as emulated
from drivers.emulators.ethercat.controller import Command
from drivers.emulators.ethercat.segment import EthercatFaults, Segment
from drivers.emulators.ethercat.slave import (
    INVALID_CHANGE,
    INVALID_INPUTS,
    INVALID_MAILBOX,
    NO_BOOTSTRAP,
    UNKNOWN_STATE,
    WATCHDOG,
    Slave,
    State,
)
from drivers.ethercat.description import find

VALUES = (1.5, -2.25, 30.125, 0.25, -0.5, 0.125)


class Master:
    """Asks the first slave of a segment, one datagram a frame."""

    def __init__(self, slaves: Sequence[Slave], process: Callable[[bytearray], bool] | None = None) -> None:
        self.slaves = list(slaves)
        self.process = process or Segment(self.slaves).process

    def ask(self, command: Command, address: int, data: bytes) -> Datagram:
        frame = bytearray(encode([Datagram(command, 0, address, data)]))
        assert self.process(frame)
        (answer,) = parse(bytes(frame))
        return answer

    def read(self, offset: int, length: int) -> bytes:
        return self.ask(Command.APRD, offset << 16, bytes(length)).data

    def write(self, offset: int, data: bytes) -> int:
        return self.ask(Command.APWR, offset << 16, data).working_counter

    def state(self, wanted: int) -> tuple[int, int]:
        """AL status and its code once a state has been asked for."""
        self.write(0x0120, struct.pack("<H", wanted))
        status, _, code = struct.unpack("<HHH", self.read(0x0130, 6))
        return status, code

    def set_up(self, first: int = 0, last: int = 4) -> None:
        """Sync managers as the description has them."""
        for number, one in enumerate(emulated.sync_managers(self.slaves[0].description)):
            if first <= number < last:
                row = struct.pack("<HHBBBB", one.start, one.length, one.control, 0, 1 if one.length else 0, 0)
                self.write(0x0800 + 8 * number, row)

    def to_op(self) -> None:
        """With FMMUs: outputs from 0 on, inputs behind them."""
        out, into = emulated.sync_managers(self.slaves[0].description)[2:]
        self.set_up(0, 2)
        assert self.state(State.PREOP) == (State.PREOP, 0)
        self.set_up(2, 4)
        self.write(0x0600, struct.pack("<IHBBHBBB3x", 0, out.length, 0, 7, out.start, 0, 2, 1 if out.length else 0))
        self.write(0x0610, struct.pack("<IHBBHBBB3x", out.length, into.length, 0, 7, into.start, 0, 1, 1))
        assert self.state(State.SAFEOP) == (State.SAFEOP, 0)
        assert self.exchange(bytes(out.length))[1] == (3 if out.length else 1)
        assert self.state(State.OP) == (State.OP, 0)

    def exchange(self, outputs: bytes = b"") -> tuple[bytes, int]:
        """Inputs, and the working counter."""
        length = emulated.sync_managers(self.slaves[0].description)[3].length
        answer = self.ask(Command.LRW, 0, outputs + bytes(length))
        return answer.data[len(outputs) :], answer.working_counter

    def sdo(self, command: int, index: int, subindex: int, data: bytes = bytes(4)) -> bytes:
        """The reply's SDO, its mailbox's header and that of CoE taken off."""
        content = struct.pack("<HBHB", 2 << 12, command, index, subindex) + data
        message = struct.pack("<HHBB", len(content), 0, 0, 3 | 1 << 4) + content
        assert self.write(emulated.OUT_MAILBOX.start, message.ljust(emulated.MAILBOX_BYTES, b"\x00")) == 1
        assert self.read(0x080D, 1)[0] & 0x08
        reply = self.read(emulated.IN_MAILBOX.start, emulated.MAILBOX_BYTES)
        assert not self.read(0x080D, 1)[0] & 0x08
        (length,) = struct.unpack_from("<H", reply)
        return reply[8 : 6 + length]

    def upload(self, index: int, subindex: int) -> bytes:
        reply = self.sdo(0x40, index, subindex)
        if reply[0] & 0x02:
            return reply[4 : 8 - (reply[0] >> 2 & 3)]
        assert reply[0] == 0x41
        return reply[8 : 8 + int.from_bytes(reply[4:8], "little")]


def device(name: str = "ati_axia80", values: Sequence[float] = VALUES) -> Slave:
    return Slave(find(name), lambda now_ns: values)


def abort_of(reply: bytes) -> int:
    assert reply[0] == 0x80
    return int.from_bytes(reply[4:8], "little")


# States


def test_states_go_up_one_by_one_and_say_why_they_do_not() -> None:
    master = Master([device()])
    assert master.state(State.INIT) == (State.INIT, 0)
    assert master.state(State.SAFEOP) == (State.INIT | 0x10, INVALID_CHANGE)
    master.set_up(0, 2)
    assert master.state(State.PREOP) == (State.INIT | 0x10, INVALID_CHANGE)  # not acknowledged
    assert master.state(State.INIT | 0x10) == (State.INIT, 0)
    assert master.state(0x03) == (State.INIT | 0x10, NO_BOOTSTRAP)
    assert master.state(State.INIT | 0x10) == (State.INIT, 0)
    assert master.state(0x07 | 0x10) == (State.INIT | 0x10, UNKNOWN_STATE)
    master.write(0x0802, struct.pack("<H", 100))
    assert master.state(State.PREOP | 0x10) == (State.INIT | 0x10, INVALID_MAILBOX)
    master.set_up(0, 2)
    assert master.state(State.PREOP | 0x10) == (State.PREOP, 0)
    master.set_up(2, 4)
    master.write(0x081A, struct.pack("<H", 30))
    assert master.state(State.SAFEOP) == (State.PREOP | 0x10, INVALID_INPUTS)
    master.set_up(2, 4)
    assert master.state(State.SAFEOP | 0x10) == (State.SAFEOP, 0)
    assert master.state(State.OP) == (State.OP, 0)
    assert master.state(State.INIT) == (State.INIT, 0)


def test_process_data_are_open_from_safe_op_on_and_a_silent_master_ends_op() -> None:
    slave = device()
    master = Master([slave])
    master.set_up()
    assert master.state(State.PREOP) == (State.PREOP, 0)
    assert master.ask(Command.APRD, emulated.INPUT_START << 16, bytes(32)).working_counter == 0
    assert master.write(emulated.OUTPUT_START, bytes(8)) == 0
    assert master.state(State.SAFEOP) == (State.SAFEOP, 0)
    assert master.ask(Command.APRD, emulated.INPUT_START << 16, bytes(32)).working_counter == 1
    assert master.write(emulated.OUTPUT_START, bytes(8)) == 1
    master.state(State.INIT)
    master.to_op()
    now_ns = slave._outputs_ns
    slave.watch(now_ns + 99_000_000)
    assert slave.state is State.OP
    slave.watch(now_ns + 101_000_000)
    assert struct.unpack("<HHH", master.read(0x0130, 6)) == (State.SAFEOP | 0x10, 0, WATCHDOG)
    assert master.exchange(bytes(8))[1] == 3  # the working counter alone does not tell


# Commands


def test_each_command_counts_as_the_standard_says() -> None:
    slaves = [device(), device("beckhoff_el3004", (1.0,) * 4)]
    master = Master(slaves)
    assert master.ask(Command.BRD, 0x0000_0000, bytes(1)).working_counter == 2
    assert master.ask(Command.BRD, 0x0000_0000, bytes(1)).station == 2  # counted up by each
    assert master.ask(Command.BWR, 0x0130_0000, b"\x08\x00").working_counter == 2
    assert master.read(0x0130, 2) == b"\x01\x00"  # cannot be written
    for place in range(2):
        station = struct.pack("<H", 0x1001 + place)
        assert master.ask(Command.APWR, 0x0010_0000 | -place & 0xFFFF, station).working_counter == 1
    assert master.ask(Command.FPRD, 0x0010_1002, bytes(2)).data == b"\x02\x10"
    assert master.ask(Command.FPRD, 0x0010_1003, bytes(2)).working_counter == 0
    assert master.ask(Command.FPRW, 0x0F00_1001, b"ab").working_counter == 3
    # Read by one, written by all others.
    shared = master.ask(Command.FRMW, 0x0F00_1001, bytes(2))
    assert (shared.data, shared.working_counter) == (b"ab", 2)
    assert master.ask(Command.FPRD, 0x0F00_1002, bytes(2)).data == b"ab"
    assert master.ask(Command.NOP, 0, bytes(4)).working_counter == 0
    assert master.ask(Command.LRW, 0, bytes(4)).working_counter == 0
    # Their ports tell which is the last.
    assert [slave.memory[0x0110:0x0112].hex() for slave in slaves] == ["315a", "1156"]


# Mailbox


def test_objects_are_read_and_written_and_refused_with_their_codes_and_told_again() -> None:
    master = Master([device("bota_rokubi")])
    master.set_up(0, 2)
    master.state(State.PREOP)
    assert struct.unpack("<I", master.upload(0x1018, 1)) == (0xB07A,)
    assert master.upload(0x1008, 0) == b"Bota Rokubi"
    assert master.upload(0x1C00, 0) == b"\x04"
    count = master.upload(0x1A00, 0)[0]
    rows = [struct.unpack("<I", master.upload(0x1A00, place + 1))[0] for place in range(count)]
    assert sum(row & 0xFF for row in rows) == 8 * 77
    assert master.sdo(0x2F, 0x8010, 1, b"\x01\0\0\0")[0] == 0x60
    assert master.upload(0x8010, 1) == b"\x01"
    assert master.sdo(0x21, 0x8006, 1, struct.pack("<I", 2) + b"\x40\x00")[0] == 0x60  # not expedited
    assert master.upload(0x8006, 1) == b"\x40\x00"
    assert abort_of(master.sdo(0x40, 0x5000, 0)) == emulated.NO_OBJECT
    assert abort_of(master.sdo(0x40, 0x1018, 9)) == emulated.NO_SUBINDEX
    assert abort_of(master.sdo(0x2F, 0x1018, 1)) == emulated.READ_ONLY
    assert abort_of(master.sdo(0x23, 0x8010, 1)) == emulated.WRONG_LENGTH
    assert abort_of(master.sdo(0x50, 0x1018, 0)) == emulated.NO_COMPLETE_ACCESS
    assert abort_of(master.sdo(0xE0, 0x1018, 0)) == emulated.TOGGLE_OR_COMMAND
    assert abort_of(master.sdo(0x21, 0x8010, 1, struct.pack("<I", 2**32 - 1))) == emulated.WRONG_LENGTH
    assert abort_of(master.sdo(0x2B, 0x1C13, 1, b"\xff\x1a\0\0")) == emulated.WRONG_VALUE
    # A reply that got lost is given once more.
    first = master.sdo(0x40, 0x1018, 1)
    assert master.ask(Command.APRD, emulated.IN_MAILBOX.start << 16, bytes(256)).working_counter == 0
    again = master.read(0x080E, 1)[0] ^ 2
    master.write(0x080E, bytes([again]))
    assert master.read(0x080D, 2) == bytes([8, again])
    assert first in master.read(emulated.IN_MAILBOX.start, emulated.MAILBOX_BYTES)


# Sensors


def test_bias_takes_what_is_there_as_zero_and_what_does_not_fit_is_held_at_the_end() -> None:
    master = Master([device()])
    master.to_op()
    first = struct.unpack("<6i", master.exchange(bytes(8))[0][:24])
    assert first == tuple(round(1e6 * value) for value in VALUES)
    master.exchange(struct.pack("<II", 1, 0))
    assert struct.unpack("<6i", master.exchange(bytes(8))[0][:24]) == (0,) * 6
    master.exchange(struct.pack("<II", 4, 0))
    assert struct.unpack("<6i", master.exchange(bytes(8))[0][:24]) == first
    master = Master([device(values=(1e5, -1e5, float("nan"), float("inf"), 0.0, 0.0))])
    master.to_op()
    assert struct.unpack("<6i", master.exchange(bytes(8))[0][:24]) == (2**31 - 1, -(2**31), 0, 0, 0, 0)
    floats = Master([device("me_gsv8", (1e300, float("nan"), 0.0, 0.0, 0.0, 0.0))])
    floats.to_op()
    assert struct.unpack("<f", floats.exchange()[0][:4]) == (float("inf"),)


# Faults


def test_faults_come_when_asked_for_and_go_again() -> None:
    slaves = [device(), device("beckhoff_el3004", (1.0,) * 4)]
    bus = Segment(slaves, EthercatFaults())
    master = Master(slaves, bus.process)
    master.to_op()
    bus.change(EthercatFaults(overload=True, sdo_aborts=("0x2021:37",), refused_state="op"))
    assert int.from_bytes(master.exchange(bytes(8))[0][24:28], "little") == 0x4000_0000
    assert abort_of(master.sdo(0x40, 0x2021, 0x37)) == 0x0800_0000
    master.state(State.SAFEOP)
    assert master.state(State.OP) == (State.SAFEOP | 0x10, 1)
    bus.change(EthercatFaults())
    assert master.state(State.OP | 0x10) == (State.OP, 0)
    assert int.from_bytes(master.exchange(bytes(8))[0][24:28], "little") == 0
    assert len(master.upload(0x2021, 0x37)) == 4
    bus.change(EthercatFaults(leaves_op=True))
    assert master.state(State.OP) == (State.SAFEOP | 0x10, 1)
    # The second loses its power: the first becomes the last, and stays.
    bus.change(EthercatFaults(power_off_s=60.0, slave=1))
    assert master.ask(Command.BRD, 0, bytes(1)).working_counter == 1
    bus.change(EthercatFaults())
    assert master.ask(Command.BRD, 0, bytes(1)).working_counter == 2
    assert [slave.state for slave in slaves] == [State.SAFEOP, State.INIT]
    frame = bytearray(encode([Datagram(Command.BRD, 0, 0, bytes(1))]))
    for silent in (
        EthercatFaults(unplugged_s=60.0),
        EthercatFaults(frame_loss_rate=1.0),
        EthercatFaults(power_off_s=60.0),
    ):
        bus.change(silent)
        assert not bus.process(bytearray(frame))
    assert bus.lost == 3
    bus.change(EthercatFaults())
    assert bus.process(frame)
    assert slaves[0].state is State.INIT


# Abuse

asked = st.builds(
    Datagram,
    command=st.sampled_from([*map(int, Command), 77]),
    index=st.just(0),
    address=st.one_of(
        st.integers(0, 2**32 - 1),
        st.builds(
            lambda station, offset: station | offset << 16,
            st.sampled_from([0, 0x1001]),
            st.sampled_from(
                [0x10, 0x120, 0x500, 0x502, 0x600, 0x610, 0x800, 0x808, 0x80E, 0x1000, 0x1200, 0x1400, 0x2400]
            ),
        ),
    ),
    data=st.one_of(st.binary(max_size=300), st.integers(0, 1400).map(bytes), st.binary(min_size=256, max_size=256)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(asked, max_size=12), st.sampled_from([State.INIT, State.PREOP, State.OP]), st.binary(max_size=300))
def test_nothing_that_a_master_may_ask_and_no_mailbox_message_does_harm(
    datagrams: list[Datagram], state: State, data: bytes
) -> None:
    slave = device()
    master = Master([slave])
    if state is State.OP:
        master.to_op()
    elif state is State.PREOP:
        master.set_up(0, 2)
        master.state(State.PREOP)
    for one in datagrams:
        answer = master.ask(Command(one.command) if one.command < 15 else Command.NOP, one.address, one.data)
        assert len(answer.data) == len(one.data)
        assert answer.working_counter <= 3
        assert len(slave.memory) == 0x10000
    for message in (data, struct.pack("<HHBB", len(data), 0, 0, 3) + data):  # of CoE
        reply = emulated.answer(message, slave.dictionary, 1, emulated.MAILBOX_BYTES)
        assert reply is None or len(reply) <= emulated.MAILBOX_BYTES
