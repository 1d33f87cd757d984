"""Jobs shared among processes, each of which keeps what it works with from one job to the next."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from sami_train.machine import one_thread


class Worker(Protocol):
    """What a process keeps between jobs, until its end."""

    def run(self, job: Any) -> Any:
        """Do a job."""

    def close(self) -> None:
        """Give back what it holds."""


Jobs = Callable[[Sequence[Any]], Iterator[tuple[Any, Any]]]
"""Does jobs, and yields each with its result."""


@contextmanager
def sharing(
    make_worker: Callable[..., Worker], arguments: tuple[Any, ...], processes: int, in_order: bool = False
) -> Iterator[Jobs]:
    """Start processes that share jobs, and end them afterwards.

    Args:
        make_worker: makes a process's worker when its first job comes; it and the jobs can be pickled.
        arguments: of `make_worker`.
        processes: how many; with 1 or less it is this one.
        in_order: yield results in the order of the jobs, and not as they arrive.
    """
    if processes <= 1:
        worker = make_worker(*arguments)
        try:
            yield lambda jobs: ((job, worker.run(job)) for job in jobs)
        finally:
            worker.close()
        return
    with one_thread(), mp.get_context("spawn").Pool(processes, _begin_process, (make_worker, arguments)) as pool:
        arriving: Any = pool.imap if in_order else pool.imap_unordered
        yield lambda jobs: arriving(_run, jobs)


_make_worker: Callable[..., Worker]
_arguments: tuple[Any, ...]
_worker: Worker | None = None
"""Of this process, where it is a pool's."""


def _begin_process(make_worker: Callable[..., Worker], arguments: tuple[Any, ...]) -> None:
    """Tell a process of a pool what it will work with."""
    global _make_worker, _arguments, _worker
    _make_worker, _arguments, _worker = make_worker, arguments, None


def _run(job: Any) -> tuple[Any, Any]:
    """Do a pool's job."""
    global _worker
    if _worker is None:
        # Not in the pool's initializer: an error there respawns workers for ever, here it reaches the caller.
        _worker = _make_worker(*_arguments)
    return job, _worker.run(job)
