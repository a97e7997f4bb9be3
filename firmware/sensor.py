"""Both sensors on the I2C bus, each of which may be missing, fail and return."""

RETRY = 100


class Sensor:
    """Registers of one sensor; `identity` is its WHO_AM_I as last read, 0 before.

    Whatever it is, it is read: what another chip's readings are worth, the host decides.
    """

    def __init__(self, i2c, address, who_am_i, registers):
        """`registers` are (register, value); the first tells whether the sensor has lost its power since."""
        self._i2c = i2c
        self._address = address
        self._who_am_i = who_am_i
        self._registers = [(register, bytes((value,))) for register, value in registers]
        self._one = bytearray(1)
        self._present = False
        self._pause = 0
        self.identity = 0

    def read(self, out):
        """Write the reading into `out`; zeros and False if there is none.

        A sensor that failed is set up anew in the next cycle, and while that fails, every 100 cycles.
        """
        if self._pause == 0:
            try:
                if not self._present:
                    self._start()
                self._read_into(out)
                return True
            except OSError:
                self._pause = 0 if self._present else RETRY
                self._present = False
        else:
            self._pause -= 1
        for i in range(len(out)):
            out[i] = 0
        return False

    def check(self):
        """Find out whether the sensor has lost its settings: then the next reading sets it up anew."""
        if self._present:
            register, value = self._registers[0]
            try:
                self._present = self._register(register) == value[0]
            except OSError:
                self._present = False

    def _start(self):
        self.identity = self._register(self._who_am_i)
        for register, value in self._registers:
            self._i2c.writeto_mem(self._address, register, value)
        self._present = True

    def _register(self, register):
        self._i2c.readfrom_mem_into(self._address, register, self._one)
        return self._one[0]


_PWR_MGMT_1, _SMPLRT_DIV, _CONFIG, _GYRO_CONFIG, _ACCEL_CONFIG = 0x6B, 0x19, 0x1A, 0x1B, 0x1C
_ACCEL_XOUT_H = 0x3B
_MPU_6050_WHO_AM_I = 0x75
_CLOCK_OF_GYRO_X = 1  # and awake


class Mpu6050(Sensor):
    """Low-g accelerometer, gyro, temperature: readings at 1 kHz."""

    def __init__(self, i2c, address, low_g_range, gyro_range, low_pass):
        registers = (
            (_PWR_MGMT_1, _CLOCK_OF_GYRO_X),
            (_SMPLRT_DIV, 0),
            (_CONFIG, low_pass),
            (_GYRO_CONFIG, gyro_range << 3),
            (_ACCEL_CONFIG, low_g_range << 3),
        )
        super().__init__(i2c, address, _MPU_6050_WHO_AM_I, registers)
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


_H3LIS331DL_WHO_AM_I, _CTRL_REG1, _CTRL_REG4, _OUT_X_L = 0x0F, 0x20, 0x23, 0x28
_NORMAL_1_KHZ_ALL_AXES = 0x3F
_BLOCK_DATA_UPDATE = 0x80
_AUTO_INCREMENT = 0x80


class H3lis331dl(Sensor):
    """High-g accelerometer: readings at 1 kHz, as they are in the registers: 12 bits, left-justified, little-endian."""

    def __init__(self, i2c, address, high_g_range):
        registers = ((_CTRL_REG1, _NORMAL_1_KHZ_ALL_AXES), (_CTRL_REG4, _BLOCK_DATA_UPDATE | high_g_range << 4))
        super().__init__(i2c, address, _H3LIS331DL_WHO_AM_I, registers)

    def _read_into(self, out):
        self._i2c.readfrom_mem_into(self._address, _OUT_X_L | _AUTO_INCREMENT, out)
