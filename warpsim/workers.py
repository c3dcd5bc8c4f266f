"""The same function over many items: in this process, on all local cores, or on an existing Dask cluster.

`as_done` gives (index, result) as they come, `in_order` the results in the order of the items. A worker that dies costs
its work in progress, which is done again. Functions and items must be picklable.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
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
    function: Callable[[Item], Found], items: Iterable[Item], *, jobs: int = 0, scheduler: str | None = None
) -> Iterator[tuple[int, Found]]:
    """(index, result) of each item as it is done, in `jobs` processes (0: one a core) or on a Dask cluster.

    Items are taken from an iterator no sooner than a worker is about to need them.
    """
    if scheduler is not None:
        yield from _on_dask(function, iter(items), scheduler)
        return
    workers = min(jobs or cores(), len(items) if isinstance(items, Sized) else 1 << 20)
    if workers <= 1:
        for index, item in enumerate(items):
            yield index, function(item)
        return
    yield from _on_processes(function, iter(items), workers)


def in_order(
    function: Callable[[Item], Found], items: Iterable[Item], *, jobs: int = 0, scheduler: str | None = None
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
    function: Callable[[Item], Found], items: Iterator[Item], workers: int
) -> Iterator[tuple[int, Found]]:
    """A pool that is started again, with what it had in hand, when a process of it dies."""
    context = multiprocessing.get_context("spawn")
    fresh = enumerate(items)
    again: list[tuple[int, Item]] = []  # what a broken pool had in hand
    restarts = 0
    more = True
    while more or again:
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
        inside: dict[Future[Found], tuple[int, Item]] = {}
        try:
            while True:
                while len(inside) < 2 * workers:
                    task = again.pop() if again else next(fresh, None)
                    if task is None:
                        more = False
                        break
                    inside[pool.submit(function, task[1])] = task
                if not inside:
                    break
                for future in wait(inside, return_when=FIRST_COMPLETED).done:
                    found = future.result()
                    yield inside.pop(future)[0], found
        except BrokenProcessPool:
            again += inside.values()
            restarts += 1
            if restarts > _RESTARTS:
                raise UnsupportedError(
                    f"worker processes died {restarts} times (out of memory?); try --jobs 1"
                ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_dask(function: Callable[[Item], Found], items: Iterator[Item], address: str) -> Iterator[tuple[int, Found]]:
    """Futures on a cluster, which does again what a lost worker had in hand."""
    try:
        import distributed
    except ImportError:
        raise UnsupportedError("--scheduler needs warpsim[dask]: pip install 'warpsim[dask]'") from None
    try:
        client = distributed.Client(address, set_as_default=False, timeout=20)
    except (OSError, ValueError) as error:
        raise InputError(f"scheduler '{address}': no Dask scheduler there ({type(error).__name__})") from None
    fresh = enumerate(items)
    numbers: dict[str, int] = {}

    def submit(count: int) -> list[Any]:
        futures = []
        for index, item in itertools.islice(fresh, count):
            future = client.submit(function, item, pure=False, retries=3)
            numbers[future.key] = index
            futures.append(future)
        return futures

    try:
        room = max(64, 4 * sum(client.nthreads().values()))
        done = distributed.as_completed(submit(room), loop=client.loop, with_results=True)
        for future, found in done:
            yield numbers.pop(future.key), found
            future.release()  # else it is done again when its worker is lost later
            done.update(submit(1))
    finally:
        client.close()


def _begin_worker() -> None:
    """Interrupts are the parent's to handle; and when it is killed, its workers go too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
