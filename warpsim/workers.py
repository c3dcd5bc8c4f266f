"""The same function over many items: in this process, on all local cores, or on an existing Dask cluster.

`as_done` gives (index, result) as they come, `in_order` the results in the order of the items. A worker that dies costs
its work in progress, which is done again. Functions and items must be picklable.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from warpsim.errors import InputError, UnsupportedError

__all__ = ["as_done", "cores", "in_order"]

Item = TypeVar("Item")
Found = TypeVar("Found")

_RESTARTS = 5


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_done(
    function: Callable[[Item], Found], items: Sequence[Item], *, jobs: int = 0, scheduler: str | None = None
) -> Iterator[tuple[int, Found]]:
    """(index, result) of each item as it is done, in `jobs` processes (0: one a core) or on a Dask cluster."""
    if scheduler is not None:
        yield from _on_dask(function, items, scheduler)
        return
    workers = min(jobs or cores(), len(items))
    if workers <= 1:
        for index, item in enumerate(items):
            yield index, function(item)
        return
    yield from _on_processes(function, items, workers)


def in_order(
    function: Callable[[Item], Found], items: Sequence[Item], *, jobs: int = 0, scheduler: str | None = None
) -> Iterator[Found]:
    """The results in the order of the items, each as soon as those before it are there."""
    waiting: dict[int, Found] = {}
    due = 0
    for index, found in as_done(function, items, jobs=jobs, scheduler=scheduler):
        waiting[index] = found
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def _on_processes(
    function: Callable[[Item], Found], items: Sequence[Item], workers: int
) -> Iterator[tuple[int, Found]]:
    """A pool that is started again, with what is left to do, when a process of it dies."""
    context = multiprocessing.get_context("spawn")
    left = dict(enumerate(items))
    restarts = 0
    while left:
        pool = ProcessPoolExecutor(min(workers, len(left)), mp_context=context, initializer=_ignore_interrupts)
        try:
            futures: dict[Future[Found], int] = {pool.submit(function, item): index for index, item in left.items()}
            for future in as_completed(futures):
                found = future.result()
                del left[futures[future]]
                yield futures[future], found
        except BrokenProcessPool:
            restarts += 1
            if restarts > _RESTARTS:
                raise UnsupportedError(
                    f"worker processes died {restarts} times (out of memory?); try --jobs 1"
                ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_dask(function: Callable[[Item], Found], items: Sequence[Item], address: str) -> Iterator[tuple[int, Found]]:
    try:
        import distributed
    except ImportError:
        raise UnsupportedError("--scheduler needs warpsim[dask]: pip install 'warpsim[dask]'") from None
    try:
        client = distributed.Client(address, set_as_default=False, timeout=20)
    except (OSError, ValueError) as error:
        raise InputError(f"scheduler '{address}': no Dask scheduler there ({type(error).__name__})") from None
    try:
        futures: list[Any] = client.map(function, items, pure=False, retries=3)
        numbers = {future.key: index for index, future in enumerate(futures)}
        for future, found in distributed.as_completed(futures, loop=client.loop, with_results=True):
            yield numbers[future.key], found
            future.release()  # else it is done again when its worker is lost later
    finally:
        client.close()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the pool
