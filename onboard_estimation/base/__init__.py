"""What knows nothing of robots: errors, files, parameters, processes, compiled kernels, time-stamped numbers."""
