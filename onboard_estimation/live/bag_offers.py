"""What the recorded publishers offered, from the places where a bag may say so; for playing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from mcap.reader import make_reader

from onboard_estimation.evaluation.bag_blocks import is_regular
from onboard_estimation.evaluation.bag_metadata import METADATA, bag_information
from onboard_estimation.live.qos import Offer, parse_offers


def recorded_offers(path: Path) -> dict[str, list[Offer]]:
    """Offers by topic: from metadata.yaml, else from the bag's files; empty where neither tells, or is damaged."""
    folder = path.parent if path.name == METADATA else path
    files = [path] if is_regular(path) and path.name != METADATA else []
    if not files:
        found = _from_metadata(folder)
        if found:
            return found
        files = sorted(file for file in folder.iterdir() if file.suffix in (".mcap", ".db3") and is_regular(file))
    offers: dict[str, list[Offer]] = {}
    for file in files:
        for topic, more in (_from_mcap(file) if file.suffix == ".mcap" else _from_sqlite(file)).items():
            offers.setdefault(topic, []).extend(more)
    return offers


def _from_metadata(folder: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for entry in bag_information(folder)["topics_with_message_count"]:
            about = entry["topic_metadata"]
            found[str(about["name"])] = parse_offers(about.get("offered_qos_profiles"))
    return found


def _from_mcap(path: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    # Any record of a damaged index can fail to parse, each in its own way.
    with suppress(Exception), path.open("rb") as file:
        summary = make_reader(file).get_summary()
        for channel in summary.channels.values() if summary else ():
            found.setdefault(channel.topic, []).extend(parse_offers(channel.metadata.get("offered_qos_profiles", "")))
    return found


def _from_sqlite(path: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
        for topic, text in base.execute("SELECT name, offered_qos_profiles FROM topics LIMIT 10000"):
            found.setdefault(str(topic), []).extend(parse_offers(text))
    return found
