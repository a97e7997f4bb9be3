"""`docs/results.md` between its markers, made of the kept results: by robot, what was measured against which target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE_FILE = Path(__file__).parent.parent / "docs" / "results.md"
START, END = "<!-- results -->", "<!-- /results -->"
HEADER = ("| what | ours | against | theirs | times faster | target |", "|---|---|---|---|---|---|")
HEADINGS = {
    "salp": ("Salp", ("salp_estimation", "onboard_estimation/filtering", "onboard_estimation/learning")),
    "thruster_chain": ("Thruster chain", ("thruster_chain_estimation", "onboard_estimation/filtering")),
    "hopper": ("Hopper", ("hopper_estimation", "onboard_estimation/learning")),
    "softrobot": ("Soft robot", ("softrobot_estimation", "onboard_estimation/filtering")),
    "strapdown": ("Strapdown", ("strapdown_estimation", "onboard_estimation/filtering")),
    "recorded_robots": ("Recorded robots of others", ("examples/recorded_robots", "onboard_estimation/filtering")),
    "drivers": ("Drivers and ground truth", ("drivers", "onboard_estimation/judging", "onboard_estimation/nodes")),
    "core": ("Evaluation, bags and live nodes", ("onboard_estimation",)),
}
"""Headings of the page by the folders of the benchmarks, and the code that these measure."""
OLDER = " *Older than the code it measures.*"


def duration(seconds: float) -> str:
    """In the unit that fits: `6.4 us`, `1.93 s`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def case_lines(result: dict[str, Any]) -> list[str]:
    """A row of the table for every case: medians, with the tenth to ninetieth percentile of the ratio."""
    lines = []
    for row in result["cases"]:
        if "cells" in row:  # in a table of its own
            continue
        if "figure" in row:
            lines.append(f"| {row['case']} | {row['figure']} | | | | {_verdict(row, row.get('target', ''))} |")
            continue
        theirs = ratio = target = ""
        if "peer" in row:
            theirs = duration(row["peer_median_s"])
            ratio = f"{_times(row['times_faster_median'])} ({_times(row['times_faster_p10'])} to "
            ratio += f"{_times(row['times_faster_p90'])})"
        if "target_times_faster" in row:
            target = f">= {row['target_times_faster']:g} times"
        if "target_s" in row:
            target = f"<= {duration(row['target_s'])}"
        ours = duration(row["median_s"])
        lines.append(
            f"| {row['case']} | {ours} | {row.get('peer', '')} | {theirs} | {ratio} | {_verdict(row, target)} |"
        )
    return lines


def further_lines(result: dict[str, Any]) -> list[str]:
    """Tables of the cases that name one (`table`) and what stands in its columns (`cells`)."""
    lines: list[str] = []
    last = ""
    for row in (row for row in result["cases"] if "cells" in row):
        if row["table"] != last:
            last = row["table"]
            lines += ["", f"{last}:", "", f"| {' | '.join(row['cells'])} |", "|" + "---|" * len(row["cells"])]
        lines.append(f"| {' | '.join(row['cells'].values())} |")
    return lines


def made_on(result: dict[str, Any]) -> str:
    """When, at which commit, and on what a result was measured."""
    machine, versions = result["machine"], result["versions"]
    packages = ", ".join(f"{name} {versions[name]}" for name in ("numpy", "numba", "filterpy"))
    return (
        f"{result['date_utc'][:10]} at {result['commit']}, {machine['processor']} "
        f"({machine['architecture']}), {machine['cores']} cores, {machine['memory_gb']} GB, load average before "
        f"{machine['load_average_before']}; Python {versions['python']}, {packages}."
    )


def shown(result: dict[str, Any]) -> str:
    """All of a result, for a terminal."""
    rows = case_lines(result)
    return "\n".join([*(HEADER if rows else ()), *rows, *further_lines(result), "", made_on(result)])


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10.0 else f"{ratio:.1f}"


def _verdict(row: dict[str, Any], target: str) -> str:
    if "met" not in row:
        return target
    return f"{target}: {'met' if row['met'] else '**missed**'}"


def _targets(result: dict[str, Any]) -> Iterator[str]:
    """Rows of the page: what there is a target for."""
    for row in (row for row in result["cases"] if "met" in row and "cells" not in row):
        what, ours, peer, _, ratio, target = (cell.strip() for cell in case_lines({"cases": [row]})[0][1:-1].split("|"))
        yield f"| {what} | {ours}{f'; {ratio} times faster than {peer}' if peer else ''} | {target} |"


def render(results: dict[str, list[dict[str, Any]]]) -> str:
    """Everything between the markers, of the results of each folder."""
    parts: list[str] = []
    for folder, (heading, _) in HEADINGS.items():
        parts += [f"## {heading}", ""]
        for result in results[folder]:
            rows = list(_targets(result))
            table = ["| what | measured | target |", "|---|---|---|", *rows, ""] if rows else []
            about = f"`{result['benchmark']}` ({result['date_utc'][:10]}, {result['commit']}): {result['summary']}"
            parts += [about + (OLDER if result.get("older") else ""), "", *table]
    return "\n".join(parts)


def replaced(text: str, table: str) -> str:
    """The text with what stands between the markers replaced; ValueError where they are missing."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no {START} ... {END} in the text")
    return f"{before}{START}\n\n{table}\n{END}{after}"


def write_table(results: dict[str, list[dict[str, Any]]]) -> None:
    """Put the table of these results into the page, and what came out of a paper into its robot's."""
    TABLE_FILE.write_text(replaced(TABLE_FILE.read_text(), render(results)))
    for folder, kept in results.items():
        for result in kept:
            if result["benchmark"].startswith("reproduce_"):
                page = TABLE_FILE.with_name(f"{folder}.md")
                page.write_text(replaced(page.read_text(), came_out(result)))


def came_out(result: dict[str, Any]) -> str:
    """Of a paper made again, the table of what came out."""
    rows = [row for row in result["cases"] if row["table"] == "What came out"]
    return "\n".join([*further_lines({"cases": rows})[3:], "", f"`{result['benchmark']}`, {result['commit']}.", ""])
