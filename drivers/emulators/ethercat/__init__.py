"""EtherCAT sensors that are not there: slaves in software at the other end of an Ethernet cable, or of a veth pair."""
