"""Robots that come with a paper: its tables and figures made again, with what it prints and what comes out here.

What papers print stands in one file, `assets/papers.yaml`, each figure under its place (`Table I`, `Section VII-B`).
Neither code nor pages have such a figure from elsewhere.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import yaml

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import packaged_text
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Capability, Configuration
from onboard_estimation.contract.trained import ReportTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Outcome = Literal["reproduced", "partly", "not reproduced", "needs the authors' data"]


@dataclass(frozen=True)
class Paper:
    """What a paper prints.

    Attributes
    ----------
    name
        As users type it: `landsalp`.
    title, authors, published
        Of the paper.
    printed
        By place (`Table I`, `Section V-A`) what is printed there, by names with their units.
    """

    name: str
    title: str
    authors: str
    published: str
    printed: Mapping[str, Mapping[str, Any]]

    def figure(self, place: str, *names: str) -> Any:
        """A printed figure: `figure("Table I", "ukf", "position_rmse_mm")`; KeyError where the file has none."""
        found: Any = self.printed[place]
        for name in names:
            found = found[name]
        return found


@dataclass(frozen=True, eq=False)
class Item:
    """A table or figure of a paper, made again.

    Attributes
    ----------
    place
        In the paper: `Table I`, `Figure 5`.
    title
        What it shows, in few words.
    outcome
        Whether it comes out here as there.
    because
        In a sentence: within what it is reproduced, or why not, with numbers.
    tables
        What the paper prints and what came out, side by side; the titles say what was simulated and how often.
    draw
        The figure, where there is one; drawn within `report.plots.write_figure`.
    caption
        Of the figure.
    """

    place: str
    title: str
    outcome: Outcome
    because: str
    tables: tuple[ReportTable, ...] = ()
    draw: Callable[[], Figure] | None = None
    caption: str = ""


class Reproduced(Capability[Configuration]):
    """A robot that comes with a paper.

    Attributes
    ----------
    paper
        Its name in `papers.yaml`.
    """

    ability = "paper to reproduce"
    paper: ClassVar[str]

    @abstractmethod
    def reproduce(
        self, configuration: Configuration, recordings: Mapping[str, LoadedRecording], quick: bool
    ) -> Iterator[Item]:
        """The paper's tables and figures, in its order, each as soon as it is there.

        What takes long is done by `base.workers.all_of`, whose workers the caller has set.

        Parameters
        ----------
        recordings
            A user's own, of the paper's robot, by name, with motion capture; none: all is simulated.
        quick
            Fewer runs: all within a minute on two cores, else within half an hour.

        Raises
        ------
        UserError
            The recordings do not do, or there are too few of them.
        """


def papers() -> dict[str, Paper]:
    """All of the file, by name."""
    stored = yaml.safe_load(packaged_text("onboard_estimation.contract", "assets/papers.yaml"))
    return {name: Paper(name, **told) for name, told in stored.items()}


def find_paper(name: str) -> Paper:
    """The paper of that name; UserError where there is none."""
    known = papers()
    if name not in known:
        raise UserError(f"no paper {name!r}; there are {', '.join(known)}")
    return known[name]
