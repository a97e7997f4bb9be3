"""Child process of `evaluate_bag`: one evaluation, with the time of its stages as JSON on the standard output.

    python -m benchmarks.evaluate_stages BAG RUN STARTED

STARTED is the clock (`time.time()`) when the parent started this process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(bag: str, folder: str, started: str) -> None:
    """Evaluate the bag into the folder."""
    stages = {"start of Python": time.time() - float(started)}
    begin = time.perf_counter()
    # What the command imports before it does anything.
    import onboard_estimation.cli  # noqa: F401
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag

    current = "imports"

    def progress(stage: str) -> None:
        nonlocal begin, current
        now = time.perf_counter()
        stages[current] = stages.get(current, 0.0) + now - begin
        begin, current = now, stage

    progress("finding the robot")
    evaluate_bag(Path(bag), EvaluateOptions(), Path(folder), progress=progress)
    progress("end")
    print(json.dumps(stages))


if __name__ == "__main__":
    main(*sys.argv[1:])
