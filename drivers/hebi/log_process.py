"""Reads a log with HEBI's library in a process of its own: on a damaged file it aborts, or takes all memory.

    python -m drivers.hebi.log_process FILE

writes plain numbers, each piece behind a tag: the number of modules, feedbacks, or what went wrong, as text.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
from pathlib import Path

import numpy as np

from drivers.hebi.library import copied, hebi_library
from onboard_estimation.base.errors import UserError

COUNT = struct.Struct("<q")
NO_LIBRARY, MODULES, FEEDBACK, FAULT = b"l", b"n", b"f", b"e"
_LONGEST_S = 60
"""For one feedback."""
_MOST_MORE_BYTES = 256 * 2**20
_CPU_S, _BYTES_PER_CPU_S = 60, 50_000
"""Of processor time: some for the start, and a second for so much of the file, ten times what it takes."""


def row_type(modules: int) -> np.dtype[np.void]:
    """How the fields of a `Feedback` of so many modules stand in a row."""
    shapes = ((modules,), (modules,), (modules, 3), (modules, 3), (modules, 4), (3, modules))
    kinds = ("<i8", "<i8", "<f8", "<f8", "<f8", "<f8")
    return np.dtype([(f"{place}", kind, shape) for place, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))])


def main(path: Path) -> None:
    """Write what the log holds to the standard output; what the library prints itself goes nowhere."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        library = hebi_library()
        signal.alarm(_LONGEST_S)
        _bound(_CPU_S + path.stat().st_size // _BYTES_PER_CPU_S)
        # Loaded at once it would be held in memory as a whole, each feedback with all of its hundred fields.
        log = library.util.load_log(str(path), load=False)
        output.write(MODULES + COUNT.pack(log.number_of_modules))
        row = np.zeros((), row_type(log.number_of_modules))
        for feedback in log.feedback_iterate:
            signal.alarm(0)  # who reads may take his time
            row[()] = tuple(copied(feedback))
            output.write(FEEDBACK + row.tobytes())
            output.flush()  # what is read is kept, should the next one end the process
            signal.alarm(_LONGEST_S)
    except MemoryError:
        output.write(FAULT + f"it asks for more than {_MOST_MORE_BYTES // 2**20} MiB of memory".encode())
    except UserError as error:
        output.write(NO_LIBRARY + str(error).encode())
    except Exception as error:  # whatever the library makes of the file
        output.write(FAULT + f"HEBI's library cannot read it: {error}".encode())
    output.flush()


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
