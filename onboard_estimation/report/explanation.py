"""What the words of a verdict mean, each once, and which section of the report shows it."""

from __future__ import annotations

import re

from onboard_estimation.base.presentation import percent
from onboard_estimation.judging import verdict as rules

_BOUNDS = (
    f"errors at most {rules.OVERCONFIDENT_FACTOR:g} times the stated ones, at least {percent(rules.LEAST_COVERAGE[1])} "
    f"of them within one and {percent(rules.LEAST_COVERAGE[3])} within three standard deviations"
)
_MORE_RUNS = "judge a longer run, or many with onboard-estimation campaign"
# By what a verdict says.
_MEANINGS = {
    r"consistent\b": f"of every part, each of its dimensions and each stretch of the run: {_BOUNDS}; and each part is "
    f"worth {rules.FEWEST_SAMPLES} independent samples. The line stays in its band, and comes near its edge at times.",
    "undecided": f"{_BOUNDS}, but that may be luck: {_MORE_RUNS}.",
    "doubtful": f"not so: {_BOUNDS}. But that may be bad luck: {_MORE_RUNS}.",
    "overconfident": f"not so: {_BOUNDS}; and that is no chance. The line leaves its band.",
    "taken together": "NEES leaves its band, though no error does.",
    "too unsure|conservative": "errors less than a third of the stated ones, or than half with "
    f"{percent(rules.MOST_COVERAGE)} of them within one standard deviation: a wide band about a line near zero.",
    "independent samples?": "what the estimates come down to, for an error that changes slowly repeats itself "
    "(autocorrelation): a line that stays on one side of zero is worth one, however long it is.",
    r"\bRMS\b": "root of the mean square after the start that is left out: of a place or a velocity that of its "
    "length, of a turn that of its angle, of all else that over all dimensions.",
    "mend this first": "sensors and truth contradict each other, or themselves: the rest says little of the filter.",
    "suspect|look at": "the sensor that is least as the filter expects it.",
    r"not judged|covers? [\d.]+ %": "gaps are not judged, and nothing is where truth and estimates share less than "
    f"{percent(rules.LEAST_SHARE)}.",
    "too short": f"{rules.FEWEST_ESTIMATES} estimates with a truth at least are needed.",
    "accuracy only": "the filter does not say how sure it is: there are no bands.",
    r"RMS[^;]*; (.*)": "what the recording, or this robot, shows beside the errors.",
}
_ELSEWHERE = {
    r"\bRMS\b": "All figures",
    "mend this first": "Notes",
    "suspect|look at": "Sensors",
    r"RMS[^;]*; (.*)": "Notes",
}


def explained(verdict: str) -> list[tuple[str, str, str]]:
    """Words that a verdict says, in its order, what each means, and the section that shows it."""
    found = [(match, pattern) for pattern in _MEANINGS if (match := re.search(pattern, verdict))]
    return [
        (match[match.re.groups], _MEANINGS[pattern], _ELSEWHERE.get(pattern, "Errors over time"))
        for match, pattern in sorted(found, key=lambda one: one[0].start())
    ]
