"""`python -m onboard_estimation`: the command line where its script is not on PATH, as with ROS 2.

Signals are seen to before anything else is imported, which takes a while on a busy machine.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from onboard_estimation.live.signals import heed_interrupts, hold_signals

_ENDS_IN_ORDER = ("record", "play")
_UNTIL_INTERRUPTED = ("launch", "node", "run", "topic", "view")


def main() -> None:
    """Run the command line; what ends in order at Ctrl-C does so from its first moment to its last."""
    # The matrices of filters are small: threads of BLAS take longer than one, and round otherwise.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    gc.set_threshold(50_000)  # what is imported makes no garbage: Python's 700 would look through it hundreds of times
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if command in _ENDS_IN_ORDER:
        hold_signals()
    elif command in _UNTIL_INTERRUPTED:
        heed_interrupts()
    from onboard_estimation.cli import main as run

    run()
    if command in _ENDS_IN_ORDER:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to be interrupted but Python's own end


if __name__ == "__main__":
    main()
