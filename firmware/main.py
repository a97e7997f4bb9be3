"""Readings of both sensors onto the serial line, at a fixed rate, for ever."""

from time import sleep_ms, ticks_add, ticks_diff, ticks_us

import settings
from frames import Frames
from machine import I2C, UART, Pin, unique_id
from sensor import H3lis331dl, Mpu6050

LOW_G_MISSING, HIGH_G_MISSING = 1, 2
SECOND_US = 1_000_000


def run():
    """Read and send until interrupted."""
    scl, sda = Pin(settings.SCL), Pin(settings.SDA)
    i2c = I2C(settings.I2C_BUS, scl=scl, sda=sda, freq=settings.I2C_HZ, timeout=settings.I2C_TIMEOUT_US)
    # The buffer holds a sample and a settings frame: writing them does not wait.
    uart = UART(settings.UART, baudrate=settings.BAUD, tx=settings.TX, rx=settings.RX, txbuf=256)
    low_g = Mpu6050(i2c, settings.LOW_G_ADDRESS, settings.LOW_G_RANGE, settings.GYRO_RANGE, settings.LOW_PASS)
    high_g = H3lis331dl(i2c, settings.HIGH_G_ADDRESS, settings.HIGH_G_RANGE)
    frames = Frames()
    ranges = settings.LOW_G_RANGE, settings.GYRO_RANGE, settings.HIGH_G_RANGE, settings.LOW_PASS
    device_id = unique_id()

    def tell():
        identities = low_g.identity, high_g.identity
        uart.write(frames.settings(ranges, settings.RATE_HZ, identities, settings.VERSION, device_id))

    # What the board's start has left on the line ends here.
    uart.write(b"\0")
    period = SECOND_US // settings.RATE_HZ
    low_g.read(frames.low_g)
    high_g.read(frames.high_g)
    start = ticks_us()
    frames.at(start)
    tell()
    due = ticks_add(start, period)
    settings_due = ticks_add(start, SECOND_US)
    while True:
        now = ticks_us()
        late = ticks_diff(now, due)
        if late < 0:
            continue
        # Readings that could not be made in time are left out; the others keep to the times of the first.
        due = ticks_add(due, period + late - late % period)
        frames.at(now)
        status = 0 if low_g.read(frames.low_g) else LOW_G_MISSING
        if not high_g.read(frames.high_g):
            status |= HIGH_G_MISSING
        if not uart.txdone():
            frames.drop()
            continue
        uart.write(frames.sample(status))
        if ticks_diff(now, settings_due) >= 0:
            settings_due = ticks_add(settings_due, SECOND_US)
            tell()
            low_g.check()
            high_g.check()


if __name__ == "__main__":
    sleep_ms(settings.PAUSE_MS)
    run()
