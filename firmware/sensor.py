"""A sensor on the I2C bus that may be missing, fail and return."""

from errno import ENODEV

RETRY = 100


class Sensor:
    """Registers of one sensor; `identity` is its WHO_AM_I as last read, 0 before."""

    def __init__(self, i2c, address, who_am_i, expected, registers):
        """`registers` are (register, value); the first tells whether the sensor has lost its power since."""
        self._i2c = i2c
        self._address = address
        self._who_am_i = who_am_i
        self._expected = expected
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
        if self.identity != self._expected:
            raise OSError(ENODEV)
        for register, value in self._registers:
            self._i2c.writeto_mem(self._address, register, value)
        self._present = True

    def _register(self, register):
        self._i2c.readfrom_mem_into(self._address, register, self._one)
        return self._one[0]
