"""Work that processes share: those of this machine, those of a Dask cluster, or this process alone.

What a task gives is the same to the last bit wherever it is done: linear algebra has one thread everywhere, and workers
with other software than this process are refused.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, NamedTuple

from onboard_estimation.base import installed, kernel_cache
from onboard_estimation.base.errors import UserError

if TYPE_CHECKING:
    from distributed import Client

HERE = "this process"
HINT = "pip install 'onboard_estimation[campaign]'"
_PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba")
_CONNECT_S = 10.0

_OWN = {
    "logging.distributed": "critical",
    # Deaths count for all that waited on the same worker, innocent or not.
    "distributed.scheduler.allowed-failures": 4,
    # What looks at the stacks of a worker a hundred times a second takes its time from the runs.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
}
"""How Dask is set for the processes of this machine."""


class Finished(NamedTuple):
    """What came of a task.

    Attributes
    ----------
    number
        Of the task.
    value
        What the function gave.
    error
        What it raised, or why it could not be done at all; None: nothing.
    """

    number: int
    value: Any
    error: BaseException | None = None


class Workers:
    """Processes that do tasks; here, this process alone.

    Attributes
    ----------
    count
        How many tasks are done at once.
    about
        Who they are, in words.
    """

    count = 1
    about = HERE

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What a function gives on every worker, by the worker's address; an exception where it raised one."""
        return {HERE: function(*arguments)}

    def results(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Finished]:
        """What came of each task, in the order in which they are done.

        The function and the tasks go to other processes: a module's function, and values that can be sent. A task whose
        worker died is done again elsewhere, some times.
        """
        for number, task in enumerate(tasks):
            try:
                yield Finished(number, _alone(function, task))
            except Exception as error:
                yield Finished(number, None, error)

    def once(self, compute: Callable[[], Any]) -> Any:
        """What a function gives in this process; some workers know it from before, see `kept_results`."""
        return compute()


@contextmanager
def open_workers(
    count: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Workers]:
    """Workers as asked for, all with the software of this process; they end with the block, a cluster stays.

    Parameters
    ----------
    count
        Processes of this machine; 0: this process alone; None: one a core.
    scheduler
        Address of a Dask scheduler that is running, e.g. `tcp://10.0.0.5:8786`; then `count` is not looked at.

    Raises
    ------
    UserError
        Dask is not installed, the scheduler cannot be reached, has no workers, or has some with other software.
    """
    if scheduler is None and count == 0:
        yield Workers()
        return
    installed.optional("distributed", "Dask, for several processes,", "campaign", "; --workers 0 does without")
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is told in a sentence
    with ExitStack() as stack:
        if scheduler is not None:
            client, about = _connected(scheduler), scheduler
        else:
            count = count or os.cpu_count() or 1
            client, about = stack.enter_context(_own_cluster(count)), f"{count} processes of this machine"
        cluster = _Cluster(client, about)
        stack.callback(cluster.close)
        if scheduler is not None:
            cluster.refuse_other_software()
        yield cluster


@contextmanager
def sharing(workers: Workers) -> Iterator[None]:
    """Within the block `all_of` has its work done by these; a training, deep inside, need not be told of them."""
    before = _SHARING.set(workers)
    try:
        yield
    finally:
        _SHARING.reset(before)


def sharers() -> Workers:
    """Those that share within the block of `sharing`, else this process."""
    return _SHARING.get()


def all_of(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    progress: Callable[[int], None] = lambda done: None,
    workers: Workers | None = None,
) -> list[Any]:
    """What a function gives for each task, in their order; see `Workers.results`.

    Parameters
    ----------
    progress
        Takes how many are done.
    workers
        None: those that share, see `sharing`, else this process.

    Raises
    ------
    Exception
        What the function raised first.
    """
    values: dict[int, Any] = {}
    for one in (workers or sharers()).results(function, tasks):
        if one.error is not None:
            raise one.error
        values[one.number] = one.value
        progress(len(values))
    return [values[number] for number in range(len(tasks))]


@cache
def software() -> dict[str, str]:
    """Versions and a hash of the sources that results depend on."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **installed.versions(_PACKAGES), "sources": kernel_cache.sources_fingerprint()}


_SHARING: ContextVar[Workers] = ContextVar("workers", default=Workers())  # noqa: B039 (it has no state)


class _Cluster(Workers):
    """Workers of a Dask scheduler, one of this process or another."""

    def __init__(self, client: Client, about: str) -> None:
        self._client, self._name = client, about
        self.count = sum(self._client.nthreads().values())
        if not self.count:
            self.close()
            raise UserError(f"the scheduler {about} has no workers; start some: dask worker {about}")
        services = self._client.scheduler_info(n_workers=0)["services"]
        self.about = about + (f"; dashboard {self._client.dashboard_link}" if "dashboard" in services else "")

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._client.run(function, *arguments, on_error="return")
        return found

    def refuse_other_software(self) -> None:
        """Raise UserError where a worker, or the scheduler, which reads the tasks too, has not that of this process."""
        try:
            scheduler = self._client.run_on_scheduler(software)
        except Exception as error:
            scheduler = error
        here, faults = software(), []
        for address, there in {"the scheduler": scheduler, **self.everywhere(software)}.items():
            if isinstance(there, BaseException):
                faults.append(f"{address} has none ({type(there).__name__}: {there})")
                continue
            # Another version may tell of other packages.
            other = [f"{name} {there.get(name)}, here {mine}" for name, mine in here.items() if mine != there.get(name)]
            faults += [f"{address} has {', '.join(other)}"] if other else []
        if faults:
            more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise UserError(
                f"a cluster with another version of the suite: {'; '.join(faults[:3])}{more}. Install the same "
                "everywhere"
            )

    def results(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Finished]:
        from distributed import as_completed

        numbers = {
            self._client.submit(_alone, function, task, pure=False, priority=-number): number
            for number, task in enumerate(tasks)
        }
        running = as_completed(numbers, loop=self._client.loop)
        for done, future in enumerate(running):
            finished = _finished(future, numbers.pop(future))
            if finished is None:
                raise UserError(
                    f"the scheduler {self._name} is gone after {done} of {len(tasks)}; what is done is kept: start it "
                    "again, and run the same command"
                )
            yield finished

    def close(self) -> None:
        self._client.close(timeout=1.0)


@contextmanager
def _own_cluster(count: int) -> Iterator[Client]:
    """Processes of this machine that nobody else can send work to: loopback alone, certificates of their own."""
    import dask
    from distributed import Client, LocalCluster, Security

    with dask.config.set(_OWN):
        with _sigint_is_ours():
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=Security.temporary(),
                silence_logs=60,
            )
        with cluster:
            yield Client(cluster, set_as_default=False)


@contextmanager
def _sigint_is_ours() -> Iterator[None]:
    """Threads and processes that start within the block never see SIGINT: Ctrl-C goes to a terminal's whole group.

    The cluster's thread, which also starts workers anew, and its processes inherit the mask; one that comes meanwhile
    is taken at the end of the block.
    """
    resource_tracker.ensure_running()  # a thread in which it starts sees SIGINT afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connected(address: str) -> Client:
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    # AssertionError: a machine so busy that Dask's own thread did not begin within 10 s.
    except (OSError, TimeoutError, ValueError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"--scheduler {address} cannot be reached ({reason}); start one: dask scheduler, which prints its address"
        ) from error


def _finished(future: Any, number: int) -> Finished | None:
    """What came of a task; None where its scheduler is gone."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        return Finished(number, future.result())
    except (FutureCancelledError, CommClosedError):
        return None
    except KilledWorker as error:
        times = error.allowed_failures + 1
        return Finished(number, None, UserError(f"{times} workers died while at it: out of memory, or a crash"))
    except Exception as error:
        return Finished(number, None, error)
    finally:
        future.release()


def _alone(function: Callable[[Any], Any], task: Any) -> Any:
    """The function of the task, with one thread for linear algebra: more would round otherwise, and get in each
    other's way.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return function(task)
    with threadpool_limits(1):
        return function(task)
