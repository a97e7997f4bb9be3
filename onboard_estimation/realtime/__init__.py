"""Does it run here, and in real time: the machine, its budget, compiled kernels."""
