"""Logs of the serial line."""

from __future__ import annotations

from pathlib import Path

from drivers.serial_imu.frames import Sample, Settings, encode_sample, encode_settings

SETTINGS = Settings(0, 0, 3, 3, 0, 1, 840, firmware=(1, 2, 3), device_id=b"hopper 1")


def sample(number: int, time_us: int | None = None, status: int = 0) -> Sample:
    """The `number`-th sample of a device at 840 Hz: one count changes with the number."""
    time_us = round(number * 1e6 / 840) if time_us is None else time_us
    return Sample(
        number % 256, time_us % 2**32, (number % 30000, -2048, 2048), (164, 0, -164), -521, (160, -160, 0), status
    )


def line(count: int, first: int = 1) -> list[bytes]:
    """Settings, then samples."""
    head = encode_settings(
        Settings(**{**vars(SETTINGS), "sequence": (first - 1) % 256, "time_us": sample(first - 1).time_us})
    )
    return [head, *(encode_sample(sample(number)) for number in range(first, first + count))]


def saved(folder: Path, *parts: bytes) -> Path:
    path = folder / "device.log"
    path.write_bytes(b"".join(parts))
    return path
