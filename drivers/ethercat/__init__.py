"""Force-torque sensors and analogue terminals on EtherCAT, through `pysoem`."""
