"""`machine` of a board that is not there: both sensors on I2C, a serial line. For MicroPython and CPython."""

import sys
from errno import ENODEV

PLAN = {"low_g": (0, 0), "high_g": (0, 0), "power_lost": 0, "busy_every": 0, "frames": 0, "identity": 0x68}
"""From which frame to which a sensor is unplugged; at which both lose their power for a moment; which calls find the
line busy; after how many frames to stop; what the low-g sensor says it is."""


def held(number, axis):
    """Counts of a chip's `number`-th reading; of the high-g sensor, the upper 12 bits."""
    return (number * 7919 + axis * 11213) % 65536 - 32768


def low_g_held(number):
    """Accelerometer, gyro, temperature."""
    return tuple(held(number, axis) for axis in range(7))


def high_g_held(number):
    return tuple(held(number, axis) // 16 * 16 for axis in range(7, 10))


class Chip:
    """Registers; a burst of readings counts on. It wakes up asleep, and gives zeros until it is set up."""

    def __init__(self, who_am_i, first, power):
        self.who_am_i, self.first, self.power = who_am_i, first, power
        self.number = 0
        self.unplugged = False
        self.reset()

    def reset(self):
        self.registers = bytearray(128)
        self.registers[self.who_am_i[0]] = self.who_am_i[1]
        self.registers[self.power[0]] = self.power[1]

    def latch(self, register):
        if register == self.first and self.awake():
            data = self.data(self.number)
            self.number += 1
            self.registers[self.first : self.first + len(data)] = data


class LowG(Chip):
    def __init__(self):
        super().__init__((0x75, PLAN["identity"]), 0x3B, (0x6B, 0x40))

    def awake(self):
        return not self.registers[0x6B] & 0x40

    def data(self, number):
        x, y, z, gx, gy, gz, temperature = low_g_held(number)
        return b"".join(bytes(((v >> 8) & 255, v & 255)) for v in (x, y, z, temperature, gx, gy, gz))

    def read(self, register, buffer):
        self.latch(register)
        buffer[:] = self.registers[register : register + len(buffer)]

    def write(self, register, data):
        self.registers[register : register + len(data)] = data


class HighG(Chip):
    """Its sub-address goes on only where the highest bit is set."""

    def __init__(self):
        super().__init__((0x0F, 0x32), 0x28, (0x20, 0x07))

    def awake(self):
        return self.registers[0x20] & 0xE0 == 0x20

    def data(self, number):
        return b"".join(bytes((v & 255, (v >> 8) & 255)) for v in high_g_held(number))

    def read(self, register, buffer):
        first = register & 0x7F
        self.latch(first)
        for i in range(len(buffer)):
            buffer[i] = self.registers[first + i if register & 0x80 else first]

    def write(self, register, data):
        self.registers[register & 0x7F] = data[-1]


class I2C:
    """`bytes` counts those on the bus, with addresses."""

    bytes = 0

    def __init__(self, bus=0, **options):
        assert options.get("freq", 400_000) == 400_000
        self.low_g, self.high_g = LowG(), HighG()
        self._chips = {0x68: ("low_g", self.low_g), 0x18: ("high_g", self.high_g)}

    def _chip(self, address):
        name, chip = self._chips.get(address, ("", None))
        if chip is None:
            raise OSError(ENODEV)
        if PLAN["power_lost"] and UART.sent >= PLAN["power_lost"]:
            PLAN["power_lost"] = 0
            self.low_g.reset()
            self.high_g.reset()
        start, end = PLAN[name]
        if chip.unplugged or start <= UART.sent < end:
            chip.reset()
            raise OSError(ENODEV)
        return chip

    def readfrom_mem_into(self, address, register, buffer):
        I2C.bytes += 3 + len(buffer)
        self._chip(address).read(register, buffer)

    def writeto_mem(self, address, register, data):
        I2C.bytes += 2 + len(data)
        self._chip(address).write(register, data)


class UART:
    """`sent` counts frames, whether sent or not."""

    sent = 0
    asked = 0

    def __init__(self, number=0, **options):
        assert options["baudrate"] == 921_600

    def txdone(self):
        UART.asked += 1
        busy = PLAN["busy_every"] and UART.asked % PLAN["busy_every"] == 0
        UART.sent += bool(busy)
        return not busy

    def write(self, data):
        sys.stdout.buffer.write(data)
        UART.sent += len(data) > 1
        if UART.sent >= PLAN["frames"]:
            raise SystemExit


class Pin:
    def __init__(self, number):
        pass


def unique_id():
    return b"\x24\x0a\xc4\x00\x01\x02"
