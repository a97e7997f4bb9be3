"""What may differ from board to board, and what the sensors are set to. Range codes are those of their registers."""

VERSION = (1, 0, 0)

I2C_BUS, SCL, SDA = 0, 22, 21
I2C_HZ = 400_000
I2C_TIMEOUT_US = 1000
LOW_G_ADDRESS = 0x68  # 0x69 with AD0 high
HIGH_G_ADDRESS = 0x18  # 0x19 with SA0 high

# UART 0 is the board's USB socket. Before the frames take it, the prompt (REPL) has it for this long.
UART, TX, RX = 0, 1, 3
BAUD = 921_600
PAUSE_MS = 3000

RATE_HZ = 1000
LOW_G_RANGE = 3  # AFS_SEL: 0 to 3 for 2, 4, 8, 16 g
GYRO_RANGE = 3  # FS_SEL: 0 to 3 for 250, 500, 1000, 2000 deg/s
HIGH_G_RANGE = 0  # FS1 FS0: 0, 1, 3 for 100, 200, 400 g
LOW_PASS = 1  # DLPF_CFG: 1 to 6 for about 188, 98, 42, 20, 10, 5 Hz; 0 and 7 would set the gyro to 8 kHz
