"""From a bag to a judged estimate: reading, replay, truth, metrics, verdict, report."""
