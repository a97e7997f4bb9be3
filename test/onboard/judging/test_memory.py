"""A recording that cannot fit into the memory is refused before the work, with numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.filtering.manifold_kernels import VECTOR
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.judging.memory import estimate_bytes, free_memory_bytes, refuse_too_large

MEMINFO = "MemTotal: 9000 kB\nMemAvailable:    5000 kB\nSwapTotal: 100 kB\nSwapFree:    20 kB\n"


def system(folder: Path, group: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Places of `/proc` and of the control groups, with what stands in them."""
    for name, content in {"proc/meminfo": MEMINFO, "proc/self/cgroup": group, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / "proc", folder / "groups"


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/\n", {}, 5020 * 1024),
        ("0::/\n", {"memory.max": "max\n", "memory.current": "7\n", "memory.stat": "anon 7\n"}, 5020 * 1024),
        ("0::/a/b\n", {"a/memory.max": "3000", "a/memory.current": "1000", "a/memory.stat": "file 400\n"}, 2400),
        (
            "5:cpu:/a\n4:memory:/a\n0::/\n",
            {
                "memory/a/memory.limit_in_bytes": "2000",
                "memory/a/memory.usage_in_bytes": "500",
                "memory/a/memory.stat": "cache 3\ntotal_cache 100\n",
            },
            1600,
        ),
    ],
)
def test_free_is_the_least_of_system_and_groups(
    tmp_path: Path, group: str, files: dict[str, str], expected: int
) -> None:
    places = system(tmp_path, group, {f"groups/{name}": content for name, content in files.items()})
    assert free_memory_bytes(*places) == expected


def test_nothing_is_refused_where_nobody_tells(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path, tmp_path) is None
    assert (free_memory_bytes() or 0) > 2**20  # of this machine


def test_the_refusal_has_numbers_and_ways_out() -> None:
    refuse_too_large("walk", 9_000_000, 2_000_000_000, 2_000_000_000)
    with pytest.raises(UserError, match=r"walk is too long .* 9,000,000 messages .* 2.1 GB .* 2 GB are free.*--drop"):
        refuse_too_large("walk", 9_000_000, 2_100_000_000, 2_000_000_000)


def test_of_a_large_state_not_all_estimates_count() -> None:
    small, large = (StateSpace(Block("x", VECTOR, (f"{i}",) * n, ("m",) * n)) for i, n in ((0, 2), (1, 100)))
    assert estimate_bytes(small) == 8 * (2 + 4 + 4 + 6)
    assert estimate_bytes(large) == 0
