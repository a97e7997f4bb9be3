"""A replayed recording against its ground truth: clocks, frames, metrics, verdict."""
