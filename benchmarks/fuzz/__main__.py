"""The command `python -m benchmarks.fuzz`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import benchmarks.fuzz
from benchmarks.fuzz.session import fuzz, keep_least_corpus, row
from benchmarks.fuzz.target import load, names
from benchmarks.kept import keep_rows
from benchmarks.run import load_results
from benchmarks.table import write_table
from onboard_estimation.errors import UserError

_KEPT_FROM = 100_000  # inputs: fewer are a trial


def main() -> None:
    """Exit code 1 where an input broke a property."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description="Coverage-guided fuzzing.")
    parser.add_argument("target", choices=names())
    parser.add_argument("--inputs", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=int, default=0, help="end after so long (default: never)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of the corpus and of inputs that break a property")
    parser.add_argument("--keep-corpus", action="store_true", help="put the least corpus into the tests")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="only this input, without atheris")
    options = parser.parse_args()
    if options.replay is not None:
        load(options.target).check(options.replay.read_bytes())
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix=f"fuzz_{options.target}_"))
    print(f"corpus and findings are in {folder}", file=sys.stderr)
    try:
        figures = fuzz(options.target, options.inputs, options.seconds, options.seed, folder)
    except UserError as error:
        sys.exit(str(error))
    print(figures.finding, end="")
    print(figures)
    if figures.finding:
        sys.exit(1)
    if options.keep_corpus:
        print(f"kept {keep_least_corpus(options.target, folder)}")
    if figures.inputs >= _KEPT_FROM:
        keep_rows("fuzz", benchmarks.fuzz.__doc__ or "", [row(figures)], names())
        write_table(load_results())


if __name__ == "__main__":
    main()
