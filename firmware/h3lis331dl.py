"""H3LIS331DL: high-g accelerometer."""

from sensor import Sensor

_WHO_AM_I, _CTRL_REG1, _CTRL_REG4, _OUT_X_L = 0x0F, 0x20, 0x23, 0x28
_NORMAL_1_KHZ_ALL_AXES = 0x3F
_BLOCK_DATA_UPDATE = 0x80
_AUTO_INCREMENT = 0x80


class H3lis331dl(Sensor):
    """Readings at 1 kHz, as they are in the registers: 12 bits, left-justified, little-endian."""

    def __init__(self, i2c, address, high_g_range):
        registers = ((_CTRL_REG1, _NORMAL_1_KHZ_ALL_AXES), (_CTRL_REG4, _BLOCK_DATA_UPDATE | high_g_range << 4))
        super().__init__(i2c, address, _WHO_AM_I, 0x32, registers)

    def _read_into(self, out):
        self._i2c.readfrom_mem_into(self._address, _OUT_X_L | _AUTO_INCREMENT, out)
