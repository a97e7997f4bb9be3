"""Executables of a package, from what is installed of it; sentences on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onboard_estimation.base.installed import executables
from onboard_estimation.commands import output


def test_the_installation_counts_before_older_metadata_of_a_source_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the program starts stands first on Python's path."""
    for place, file, points in (
        ("tree/crawler.egg-info", "PKG-INFO", "moved = crawler.old:main\ngone = crawler.old:gone\n"),
        ("site/crawler-1.0.dist-info", "METADATA", "moved = crawler.new:main\n"),
    ):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / file).write_text("Metadata-Version: 2.1\nName: crawler\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[console_scripts]\n{points}")
        monkeypatch.setattr(sys, "path", [*sys.path, str(folder.parent)])
    assert executables("crawler") == {"moved": "crawler.new:main", "gone": "crawler.old:gone"}


def test_lines_around_a_sentence_are_lines_and_none_within(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("\nall\ndone.\n")
    output.say("")
    output.say("\n")
    assert capsys.readouterr().out == "\nall\N{REPLACEMENT CHARACTER}done.\n\n" + "\n" + "\n\n"
