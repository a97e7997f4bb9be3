"""What some robots can do, each a class that such a robot is derived from.

| module | class | what of it |
|---|---|---|
| `simulated` | `Simulated`, `SimulatedLive` | recordings from a simulator; piece by piece |
| `drawn` | `Drawn` | tf frames, solids, outline, URDF |
| `truth` | `StartedFromTruth`, `WithTrueRates` | an initial state from the truth, velocities from the truth |
| `smoothed` | `Smoothed` | a smoother for `evaluate --smooth` |
| `trained` | `Trained` | models of what its equations leave out |
| `reported` | `Reported` | figures, notes and sections of its own in reports |
| `identified` | `Identified` | physical coefficients from recordings |
| `gaits` | `WithGaits` | gaits that are shown and designed |

`tables` has what the commands show of a training, an identification or a gait.
"""
