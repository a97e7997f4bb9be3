"""Reads a log with HEBI's library in a process of its own: on a damaged file it aborts, or takes all memory.

    python -m drivers.hebi.log_process FILE

writes lines of JSON: the fields of a `Feedback` as lists, or, as the last one, what went wrong, as text.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from drivers.hebi.library import copied, hebi_library
from onboard_estimation.base.errors import UserError

_MOST_MODULES = 1000
_LONGEST_S = 60
"""For one feedback."""
_MOST_MORE_BYTES = 256 * 2**20
_CPU_S, _BYTES_PER_CPU_S = 60, 50_000
"""Of processor time: some for the start, and a second for so much of the file, ten times what it takes."""


def main(path: Path) -> None:
    """Write what the log holds to the standard output; what the library prints itself goes nowhere."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        library = hebi_library()
        signal.alarm(_LONGEST_S)
        _bound(_CPU_S + path.stat().st_size // _BYTES_PER_CPU_S)
        # Loaded at once it would be held in memory as a whole, each feedback with all of its hundred fields.
        log = library.util.load_log(str(path), load=False)
        if not 0 < log.number_of_modules <= _MOST_MODULES:
            raise ValueError(f"it is of {log.number_of_modules} modules, at most {_MOST_MODULES} are read")
        for feedback in log.feedback_iterate:
            signal.alarm(0)  # who reads may take his time
            # What is read is kept, should the next one end the process.
            print(json.dumps([field.tolist() for field in copied(feedback)]), file=output, flush=True)
            signal.alarm(_LONGEST_S)
    except MemoryError:
        said = f"it asks for more than {_MOST_MORE_BYTES // 2**20} MiB of memory"
    except UserError as error:  # there is no library
        said = str(error)
    except Exception as error:  # whatever the library makes of the file
        said = f"HEBI's library cannot read it: {error}"
    else:
        return
    print(json.dumps(said), file=output, flush=True)


def _bound(cpu_s: int) -> None:
    """Little more memory than there is now, some processor time, no file written, no image of an abort."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + _MOST_MORE_BYTES,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # at the second one no signal says why


if __name__ == "__main__":
    main(Path(sys.argv[1]))
