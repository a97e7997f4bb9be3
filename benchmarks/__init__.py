"""Speed of the estimators and of the command line, against peers measured in the same run. See `docs/results.md`."""
