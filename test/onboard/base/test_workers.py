"""Tasks on processes of this machine and on a cluster: what is given is what one process gives, whatever dies."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tasks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from threadpoolctl import threadpool_limits

from benchmarks.core.campaigns import Cluster, cluster
from onboard_estimation.base import workers as module
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kept_results import KeptResults, keepable, keeping
from onboard_estimation.base.workers import Workers, all_of, open_workers, sharing, software

SUPPORT = str(Path(tasks.__file__).parent)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SUPPORT, prepend=":")
        with open_workers(2) as workers:
            yield workers


@pytest.fixture
def alone() -> Iterator[Workers]:
    with open_workers(0) as workers:
        yield workers


def test_the_same_comes_of_tasks_wherever_they_are_done(two: Workers, alone: Workers) -> None:
    assert (alone.count, two.count) == (1, 2)
    for workers in (alone, two):
        found = {one.number: one for one in workers.results(tasks.square, list(range(30)))}
        assert sorted(found) == list(range(30))
        assert [found[number].value for number in range(30) if number != 3] == [n * n for n in range(30) if n != 3]
        assert isinstance(found[3].error, ValueError)
        assert found[3].value is None
    here, there = ({one.number: one.value for one in w.results(tasks.product, range(3))} for w in (alone, two))
    assert here == there


@pytest.mark.parametrize("stopped_at", range(6))
def test_an_interrupted_command_goes_on_with_what_is_done(
    stopped_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is done once in both together, an error again; another command, or a later one, begins anew."""
    monkeypatch.setenv("ONBOARD_ESTIMATION_CACHE_DIR", str(tmp_path))
    done: list[int] = []

    def task(number: int) -> int:
        if len(done) == stopped_at and stopped_at < 5:
            done.append(-1)
            raise KeyboardInterrupt
        done.append(number)
        return tasks.square(number)

    def work(*asked: object) -> list[int]:
        with keeping(Workers(), *asked) as workers:
            first = workers.once(lambda: task(9))
            return [first, *all_of(task, [7, 5], workers=workers), *all_of(task, [7, 6], workers=workers)]

    if stopped_at < 5:
        with pytest.raises(KeyboardInterrupt):
            work("a")
    assert work("a") == [81, 49, 25, 49, 36]
    assert sorted(done) == sorted([9, 7, 5, 7, 6] + [-1] * (stopped_at < 5))
    assert not list(tmp_path.iterdir())
    assert work("b") == [81, 49, 25, 49, 36]
    assert len(done) == 10 + (stopped_at < 5)


class Named(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Plain:
    one: Any
    other: Any


keepable(Named, Plain)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
ARRAYS = arrays(st.sampled_from(["f8", "i8", "u1", "?", "U3"]), array_shapes(min_dims=1, max_side=3))
VALUES = st.recursive(
    LEAVES | ARRAYS | ARRAYS.map(np.asfortranarray) | st.floats().map(np.float64),
    lambda one: (
        st.lists(one, max_size=3)
        | st.tuples(one, one)
        | st.dictionaries(st.text(max_size=3), one, max_size=2)
        | st.builds(Named, one, one)
        | st.builds(Plain, one, one)
    ),
    max_leaves=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES, data=st.data())
def test_kept_results_come_back_the_same_and_damaged_ones_are_computed_anew(
    value: Any, data: st.DataObject, tmp_path: Path
) -> None:
    def kept(compute: Callable[[], Any]) -> Any:
        return KeptResults(Workers(), tmp_path).once(compute)

    with suppress(FileNotFoundError):
        (tmp_path / "1-0.npz").unlink()
    assert kept(lambda: value) is value
    again = kept(lambda: pytest.fail("it was not kept"))
    assert repr(again) == repr(value)
    if isinstance(value, np.ndarray):
        assert (again.dtype, again.strides) == (value.dtype, value.strides)
    (file,) = tmp_path.iterdir()
    whole = bytearray(file.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(data.draw(st.sampled_from([bytes(whole), whole[: len(whole) // 2], pickle.dumps(value)])))
    assert repr(kept(lambda: value)) == repr(value)


def test_what_lies_deep_inside_is_done_by_the_workers_that_share(two: Workers) -> None:
    done: list[int] = []
    here = os.getpid()
    assert all_of(tasks.process, range(4)) == [here] * 4
    with sharing(two):
        assert all_of(tasks.square, [7, 5, 6], done.append) == [49, 25, 36]
        assert done == [1, 2, 3]
        assert here not in all_of(tasks.process, range(4))
        with pytest.raises(ValueError, match="three"):
            all_of(tasks.square, range(5))
    assert all_of(tasks.process, [0]) == [here]


def test_what_ends_last_stands_where_it_was_asked_for(two: Workers, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    done: list[int] = []
    assert all_of(tasks.in_other_order, [(mark, True), (mark, False)], done.append, two) == ["waited", "did not"]
    assert done == [1, 2]


def test_linear_algebra_has_one_thread_everywhere(two: Workers, alone: Workers) -> None:
    with threadpool_limits(2, user_api="blas"):
        assert tasks.blas_threads(0) == {2}
        for workers in (alone, two):
            assert all_of(tasks.blas_threads, [0], workers=workers) == [{1}]
        assert tasks.blas_threads(0) == {2}


@pytest.mark.slow
def test_a_worker_that_dies_takes_nothing_along(two: Workers, tmp_path: Path) -> None:
    marks = [str(tmp_path / f"mark_{number}") for number in range(3)]
    assert sorted(one.value for one in two.results(tasks.deadly_once, marks)) == ["mark_0", "mark_1", "mark_2"]
    [fatal] = two.results(tasks.deadly, [1])
    assert "5 workers died while at it: out of memory, or a crash" in str(fatal.error)
    assert [one.value for one in two.results(tasks.square, [5])] == [25]  # there are new ones


def test_nobody_else_can_send_work_to_this_machine_s_processes(two: Workers) -> None:
    """They listen on the loopback alone, and to who has the certificate."""
    from distributed import Client

    addresses = list(two.everywhere(software))
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    for address in (addresses[0].replace("tls", "tcp"), addresses[0]):
        with pytest.raises((OSError, TypeError)):
            Client(address, timeout=2.0)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "frob://here"])
def test_a_scheduler_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_S", 1.0)
    with (
        pytest.raises(UserError, match=f"--scheduler {address} cannot be reached") as caught,
        open_workers(None, address),
    ):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_workers_with_other_software_are_refused(tmp_path: Path) -> None:
    """A copy of the suite in which one line is another, and that tells of fewer packages."""
    package = tmp_path / "other" / "onboard_estimation"
    shutil.copytree(ROOT / package.name, package, ignore=shutil.ignore_patterns("__pycache__"))
    changed = package / "base" / "errors.py"
    changed.write_text(changed.read_text() + "\n# another version\n")
    told = changed.with_name("workers.py")
    told.write_text(told.read_text().replace('"scipy", "numba")', '"scipy")'))
    with cluster(tmp_path, 0) as one:
        with pytest.raises(UserError, match="has no workers"), open_workers(scheduler=one.address):
            pass
        one.add_worker("other_worker", {"PYTHONPATH": str(tmp_path / "other")})
        wait_for_workers(one, 1)
        refused = r"another version of the suite: tcp://127\.0\.0\.1:\d+ has numba None, here [\d.]+, sources \w+, here"
        with pytest.raises(UserError, match=refused), open_workers(scheduler=one.address):
            pass


@pytest.mark.slow
def test_a_scheduler_that_dies(tmp_path: Path) -> None:
    with cluster(tmp_path, 1, {"PYTHONPATH": SUPPORT}) as one:
        wait_for_workers(one, 1)
        with open_workers(scheduler=one.address) as workers:
            results = workers.results(tasks.square, list(range(40)))
            done = [next(results) for _ in range(5)]
            assert sum(one.value is not None for one in done) >= 4
            one.kill()
            with pytest.raises(UserError, match=r"is gone after \d+ of 40; what is done is kept: start it again"):
                done.extend(results)
            assert 5 <= len(done) < 40


def wait_for_workers(one: Cluster, count: int) -> None:
    from distributed import Client

    with Client(one.address, timeout=300.0, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=300.0)
