"""Two inertial sensors on a microcontroller (MPU-6050 and H3LIS331DL), over a serial line: driver and emulator."""
