"""Is a recording sound? Found once, before anything is filtered, for inspections, evaluations and trainings alike."""
