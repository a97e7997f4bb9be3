"""`python -m benchmarks`, as `make benchmarks` runs it."""

from benchmarks.run import main

if __name__ == "__main__":
    main()
