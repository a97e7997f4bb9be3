"""MPU-6050: low-g accelerometer, gyro, temperature."""

from sensor import Sensor

_PWR_MGMT_1, _SMPLRT_DIV, _CONFIG, _GYRO_CONFIG, _ACCEL_CONFIG = 0x6B, 0x19, 0x1A, 0x1B, 0x1C
_ACCEL_XOUT_H = 0x3B
_WHO_AM_I = 0x75
_CLOCK_OF_GYRO_X = 1  # and awake


class Mpu6050(Sensor):
    """Readings at 1 kHz."""

    def __init__(self, i2c, address, low_g_range, gyro_range, low_pass):
        registers = (
            (_PWR_MGMT_1, _CLOCK_OF_GYRO_X),
            (_SMPLRT_DIV, 0),
            (_CONFIG, low_pass),
            (_GYRO_CONFIG, gyro_range << 3),
            (_ACCEL_CONFIG, low_g_range << 3),
        )
        super().__init__(i2c, address, _WHO_AM_I, 0x68, registers)
        self._raw = bytearray(14)

    def _read_into(self, out):
        # Big-endian accelerometer, temperature, gyro become little-endian accelerometer, gyro, temperature.
        raw = self._raw
        self._i2c.readfrom_mem_into(self._address, _ACCEL_XOUT_H, raw)
        for i in range(0, 6, 2):
            out[i] = raw[i + 1]
            out[i + 1] = raw[i]
            out[i + 6] = raw[i + 9]
            out[i + 7] = raw[i + 8]
        out[12] = raw[7]
        out[13] = raw[6]
