"""What plots share: style and colours, writing a file, axes with title, provenance and caption, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onboard_estimation.errors import UserError, printable
from onboard_estimation.picture import BAND_COLOUR, ESTIMATE_COLOUR, TRUTH_COLOUR

# Okabe and Ito's palette: told apart with every common colour blindness, and by brightness in grey.
ESTIMATE, TRUTH, BAND, WORST, INK = ESTIMATE_COLOUR, TRUTH_COLOUR, BAND_COLOUR, "#F0E442", "#333333"
SERIES = (ESTIMATE, TRUTH, "#009E73", "#CC79A7", "#E69F00", BAND, "#000000", "#999999")
EVENTS = ("#999999", "#CC79A7", "#009E73")

WIDTH_IN, LEFT_IN, RIGHT_IN = 8.0, 0.68, 0.15
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 110.0,
    "font.size": 9.0,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.1,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def write_figure(file: Path | IO[bytes], draw: Callable[[], Figure]) -> None:
    """Draw a figure in this style into a PNG file, the same to the byte whenever the figure is.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with style.context(STYLE, after_reset=True):  # the user's own matplotlibrc must not change the file
        figure = draw()
        try:
            if isinstance(file, Path):
                file.parent.mkdir(parents=True, exist_ok=True)
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def panels_of(
    figure: Figure,
    title: str,
    provenance: str,
    caption: Sequence[str],
    rows: int,
    row_height_in: float,
    columns: int = 1,
    gap_in: float = 0.28,
    width_in: float = WIDTH_IN,
    top_in: float = 0.70,
) -> Any:
    """(rows, columns) axes below title and provenance, placed in inches: a layout engine takes 0.1 s a figure."""
    lines = [line for sentence in caption if sentence for line in textwrap.wrap(plain(sentence), 145)]
    bottom = 0.55 + 0.16 * len(lines)
    height = top_in + bottom + rows * row_height_in + (rows - 1) * gap_in
    figure.set_size_inches(width_in, height)
    figure.subplots_adjust(
        left=LEFT_IN / width_in,
        right=1.0 - RIGHT_IN / width_in,
        top=1.0 - top_in / height,
        bottom=bottom / height,
        hspace=gap_in / row_height_in,
        wspace=0.24,
    )
    left = 0.12 / width_in
    figure.text(left, 1.0 - 0.12 / height, plain(title), va="top", size=12, weight="bold")
    shortened = plain(textwrap.shorten(provenance, 120, placeholder=" ..."))
    figure.text(left, 1.0 - 0.36 / height, shortened, va="top", size=8.5)
    figure.text(left, 0.08 / height, "\n".join(lines), va="bottom", size=7.5, linespacing=1.25)
    return figure.subplots(rows, columns, squeeze=False)


def add_legend(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend for the whole figure, above it, of what is drawn in `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="upper right",
        bbox_to_anchor=(1.0, 1.0 - 0.02 / figure.get_figheight()),
        ncols=columns,
        handlelength=1.6 if columns <= 6 else 1.1,
        columnspacing=2.0 if columns <= 6 else 1.2,
    )


def add_title(figure: Figure, title: str) -> None:
    """A sentence above a figure that a layout engine arranges."""
    figure.suptitle(plain(title), size=9.5, x=0.01, ha="left")


def say(axes: Axes, text: str) -> None:
    """Words in the middle of axes with nothing else in them."""
    background = {"facecolor": "white", "alpha": 0.85, "linewidth": 0}
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", size=10, bbox=background)


def plain(text: str) -> str:
    """Text that matplotlib prints as it is: `$` would start a formula, and a faulty formula is an error."""
    return printable(text).replace("$", r"\$")
