"""What may differ from board to board, and what the sensors are set to. Range codes are those of their registers.

The emulator, config/hopper.yaml, config/hopper_hardware.yaml and config/hopper_nodes.yaml are this one robot; a test
compares them.
"""

VERSION = (1, 1, 0)

I2C_BUS, SCL, SDA = 0, 22, 21
I2C_HZ = 400_000
I2C_TIMEOUT_US = 1000
LOW_G_ADDRESS = 0x68  # 0x69 with AD0 high
HIGH_G_ADDRESS = 0x18  # 0x19 with SA0 high

# UART 0 is the board's USB socket. Before the frames take it, the prompt (REPL) has it for this long.
UART, TX, RX = 0, 1, 3
BAUD = 921_600
PAUSE_MS = 3000

RATE_HZ = 840  # the paper's, and what bus and program leave time for: the device is not to tell more than it does
# The widest of the low-g sensor: what it clips in stance, the other one measures.
LOW_G_RANGE = 3  # AFS_SEL: 0 to 3 for 2, 4, 8, 16 g
GYRO_RANGE = 3  # FS_SEL: 0 to 3 for 250, 500, 1000, 2000 deg/s
# Simulated landings from 1 to 4 m reach 23 to 39 g on rubber foot and stop; hard floors and worn stops make 50 to 100 g
# and more, and a clipped shock is lost. Digits of 98 mg are nothing beside the noise of 300 mg at this rate: 200 g.
HIGH_G_RANGE = 1  # FS1 FS0: 0, 1, 3 for 100, 200, 400 g
# Off: 260 Hz are less than half the rate all the same, and each step below makes shocks 2 ms or more late, and lower.
LOW_PASS = 0  # DLPF_CFG: 0 off, with the gyro at 8 kHz; 1 to 6 for about 188, 98, 42, 20, 10, 5 Hz
