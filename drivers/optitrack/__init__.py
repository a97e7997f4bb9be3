"""OptiTrack: a client of NatNet, 2.5 to 4.2, and the node that publishes its rigid bodies as ground truth."""
