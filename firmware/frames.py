"""The frames of drivers/serial_imu/frames.py, built in place in buffers that are made once."""

import struct
from binascii import crc32


class Frames:
    """Sample and settings frames with their sequence and device time.

    A buffer holds COBS's first byte, payload, CRC-32, zero byte. Each frame writes all of its payload anew.
    """

    def __init__(self):
        self._sample = bytearray(34)
        self._settings = bytearray(31)
        sample = memoryview(self._sample)
        self._sample_payload = sample[1:29]
        self._settings_payload = memoryview(self._settings)[1:26]
        # Where the drivers write: low-g, gyro and temperature; high-g.
        self.low_g = sample[7:21]
        self.high_g = sample[21:27]
        self._sequence = 0
        self._ticks = 0
        self._turns = 0

    def at(self, ticks):
        """Take `ticks_us`, which wraps at 2**30, as the time of what follows."""
        if ticks < self._ticks:
            self._turns = (self._turns + 1) & 3
        self._ticks = ticks

    def drop(self):
        """A frame that is not sent; its number is used up, so that the host misses it."""
        self._sequence = (self._sequence + 1) & 255

    def sample(self, status):
        """The sample frame with the readings that are in `low_g` and `high_g`."""
        frame = self._sample
        self._begin(frame, 1, 0)
        frame[27] = status
        frame[28] = 0
        return _finished(frame, self._sample_payload)

    def settings(self, ranges, rate_hz, identities, version, device_id):
        """The settings frame; its time is 1 us after the sample's, for no two frames have the same."""
        frame = self._settings
        self._begin(frame, 2, 1)
        struct.pack_into("<4BH2B3B8s", frame, 7, *ranges, rate_hz, *identities, *version, device_id)
        return _finished(frame, self._settings_payload)

    def _begin(self, frame, kind, later_us):
        # Byte by byte: from 2**30 on, an integer would be an object on the heap.
        ticks, turns = self._ticks + later_us, self._turns
        if ticks >> 30:
            ticks, turns = 0, (turns + 1) & 3
        frame[1] = kind
        frame[2] = self._sequence
        frame[3] = ticks & 255
        frame[4] = (ticks >> 8) & 255
        frame[5] = (ticks >> 16) & 255
        frame[6] = (ticks >> 24) | (turns << 6)
        self._sequence = (self._sequence + 1) & 255


def _finished(frame, payload):
    struct.pack_into("<I", frame, len(frame) - 5, crc32(payload))
    stuff(frame)
    return frame


def stuff(frame):
    """COBS in place: the content is frame[1:-1], shorter than 254 bytes."""
    last = len(frame) - 1
    code = 0
    for i in range(1, last):
        if frame[i] == 0:
            frame[code] = i - code
            code = i
    frame[code] = last - code
    frame[last] = 0
