"""Sources of episodes for the learner: the learner's own process, in alternation, or parallel rollout workers."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing as mp
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.spec import Reach
from sami_train.episodes.episode import Episode
from sami_train.episodes.exploration import Exploration, WithProfile
from sami_train.episodes.numpy_policy import NumpyPolicy, NumpyWeights
from sami_train.episodes.rollout import Rollout
from sami_train.machine import one_thread

QUEUE_ROUNDS = 1
"""Rounds of each rollout worker in the queue before the rollout workers wait for the learner."""
PATIENCE_S = 600.0
"""Seconds without any episode after which rollout workers count as stuck; an episode takes seconds."""
LOCK_S = 1.0
"""Longest time [s] that the learner waits for a rollout worker to finish reading weights, which takes microseconds."""
BURST = 10
"""Most updates before the learner takes new episodes from the queue again."""


class WorkerError(SamiError):
    """A rollout worker failed, died or hangs; after a failure, the error's cause has its traceback."""


class _Failure(NamedTuple):
    """What a rollout worker sends in place of episodes after an exception."""

    summary: str
    trace: str


class Source(Protocol):
    """Source of the learner's episodes: the learner calls `collect` between its updates."""

    def updates(self, due: int) -> int:
        """Return how many of the `due` updates the learner makes before it calls `collect` again."""

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Return the new episodes; with `wait`, wait up to a second if there are none."""

    def publish(self, weights: NumpyWeights) -> None:
        """Send new weights to the rollout workers."""

    def close(self) -> None:
        """Stop collecting."""


class InStep:
    """Collects one round at a time in the learner's process: the same seed gives the same episodes.

    Args:
        rollout: the rollout that collects.
        policy: the policy of the rollout.
        newest: returns the learner's present weights.
        next_index: number of the next episode in the run.
    """

    def __init__(
        self, rollout: Rollout, policy: NumpyPolicy, newest: Callable[[], NumpyWeights], next_index: int = 0
    ) -> None:
        self.rollout, self.policy, self.newest, self.next_index = rollout, policy, newest, next_index

    def updates(self, due: int) -> int:
        """Return `due`: training must not depend on the speed of the machine."""
        return due

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Run one round with the newest weights."""
        self.policy.load(self.newest())
        indices = range(self.next_index, self.next_index + len(self.rollout.envs))
        self.next_index = indices.stop
        return self.rollout.round(indices, steps_done)

    def publish(self, weights: NumpyWeights) -> None:
        """Do nothing: each round loads the newest weights itself."""

    def close(self) -> None:
        """Do nothing: the caller owns the environments."""


class SharedWeights:
    """The newest weights in shared memory: the learner writes them, workers read them when `version` has changed.

    If a reader is killed or stopped while it holds the lock, later writes time out and change nothing.
    """

    def __init__(self, weights: NumpyWeights, context: Any) -> None:
        self._shapes = {name: array.shape for name, array in weights.arrays.items()}
        self._rest = dataclasses.replace(weights, arrays={})
        self._memory = context.RawArray("f", sum(array.size for array in weights.arrays.values()))
        self._lock = context.Lock()
        self.version = context.RawValue("L", 0)
        self.write(weights)

    def write(self, weights: NumpyWeights) -> None:
        """Replace the weights by new ones of the same shapes; does nothing if the lock is not free within `LOCK_S`."""
        if not self._lock.acquire(timeout=LOCK_S):
            return
        try:
            flat = np.frombuffer(self._memory, np.float32)
            np.concatenate([np.asarray(weights.arrays[name], np.float32).ravel() for name in self._shapes], out=flat)
            self.version.value += 1
        finally:
            self._lock.release()

    def read(self) -> NumpyWeights:
        """Return a copy of the newest weights."""
        with self._lock:
            flat = np.frombuffer(self._memory, np.float32).copy()
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape, dtype=np.int64))
            arrays[name] = flat[start : start + size].reshape(shape)
            start += size
        return dataclasses.replace(self._rest, arrays=arrays)


class Processes:
    """Collects in processes that run in parallel to the learner; none of them imports torch.

    Args:
        spec: Gymnasium's `env.spec` of the environment.
        envs: number of environments that each process steps together.
        workers: number of processes.
        weights: the initial weights.
        seed, exploration, reach: see `Rollout`.
        next_index: number of the next episode in the run; worker i of n takes every n-th round from there.
        state_every, with_profile: see `Rollout`.
        steps_done: environment steps of the run so far, until the learner's first call of `collect` reports them.
    """

    def __init__(
        self,
        spec: Any,
        envs: int,
        workers: int,
        weights: NumpyWeights,
        seed: int,
        exploration: Exploration,
        reach: Reach | None,
        next_index: int = 0,
        state_every: int = 0,
        with_profile: WithProfile | None = None,
        steps_done: int = 0,
    ) -> None:
        context = mp.get_context("spawn")
        self.patience_s, self._arrived_at = PATIENCE_S, time.monotonic()
        self._weights = SharedWeights(weights, context)
        # Raw values: a killed worker could hold the lock of a synchronised one for ever.
        self._steps, self._stop = context.RawValue("q", steps_done), context.RawValue("b", 0)
        self._arrived: queue.Queue[Sequence[Episode] | _Failure] = queue.Queue(QUEUE_ROUNDS * max(1, workers))
        self._processes: list[Any] = []
        self._readers: list[threading.Thread] = []
        self._last_report: dict[str, float] = {}
        # A spec cannot rebuild stable-baselines3's Monitor.
        wrappers = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.name != "Monitor")
        spec = dataclasses.replace(spec, additional_wrappers=wrappers)
        settings = (spec, envs, seed, exploration, reach, state_every, with_profile)
        with one_thread():
            for i in range(workers):
                reader, writer = context.Pipe(duplex=False)
                indices = range(next_index + i * envs, 2**62, envs * workers)
                arguments = (settings, indices, self._weights, self._steps, self._stop, writer)
                name = f"rollout worker {i}"
                self._last_report[name] = time.monotonic()
                self._processes.append(context.Process(target=_collect, name=name, daemon=True, args=arguments))
                self._processes[-1].start()
                writer.close()  # so that the pipe closes when the process ends
                self._readers.append(threading.Thread(target=self._read, args=(name, reader), daemon=True))
                self._readers[-1].start()

    def updates(self, due: int) -> int:
        """Return at most `BURST`, so that new episodes do not wait long in the queue."""
        return min(due, BURST)

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Return the episodes in the queue; see `Source.collect`.

        Raises:
            WorkerError: a rollout worker failed or died, or none sent an episode within `patience_s`.
        """
        self._steps.value = steps_done
        episodes: list[Episode] = []
        while True:
            try:
                arrived = self._arrived.get(wait and not episodes, 1.0)
            except queue.Empty:
                self._check_alive()
                if wait and time.monotonic() - self._arrived_at > self.patience_s:
                    raise WorkerError(
                        f"no rollout worker sent an episode within {self.patience_s:g} s: they are stopped, or hang. "
                        "Find out what they wait for, then resume the run with --resume."
                    ) from None
                return episodes  # also an empty list, so that callbacks can stop the learner
            if isinstance(arrived, _Failure):
                raise WorkerError(f"a rollout worker failed: {arrived.summary}") from RuntimeError(arrived.trace)
            episodes += arrived
            self._arrived_at = time.monotonic()

    def publish(self, weights: NumpyWeights) -> None:
        """Write new weights to shared memory; each rollout worker loads them before its next round."""
        self._weights.write(weights)

    def close(self) -> None:
        """Stop the processes; kill those that are still alive after 5 s."""
        self._stop.value = 1
        for process in self._processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()  # a stopped process (SIGSTOP) reacts to nothing else
                process.join()
        for reader in self._readers:
            reader.join()

    def _read(self, name: str, pipe: Any) -> None:
        """Queue a worker's messages until its pipe closes; in a thread, since `recv` blocks on half a message."""
        with pipe, suppress(EOFError, OSError):
            while True:
                arrived = pipe.recv()
                while not self._stop.value:
                    self._last_report[name] = time.monotonic()
                    try:
                        self._arrived.put(arrived, timeout=0.5)
                        break
                    except queue.Full:
                        continue

    def _check_alive(self) -> None:
        for process, reader in zip(self._processes, self._readers, strict=True):
            # A rollout worker that failed has sent a _Failure: wait until its reader has queued it.
            if not (process.is_alive() or reader.is_alive()) and self._arrived.empty():
                raise WorkerError(
                    f"{process.name} died with exit code {process.exitcode}; did the system run out of memory? Resume "
                    "the run with --resume."
                )
            if time.monotonic() - self._last_report[process.name] > self.patience_s:
                self._last_report[process.name] = math.inf  # once
                message = f"{process.name} sent no episode for {self.patience_s:g} s: it is stopped, or hangs."
                print(message, file=sys.stderr)


def _collect(
    settings: tuple[Any, ...], indices: range, weights: SharedWeights, steps: Any, stop: Any, out: Any
) -> None:
    """Collect until `stop` is set or the learner has closed the pipe: the main function of a rollout worker."""
    # Ctrl-C and Slurm's signals also reach workers, but only the learner decides when to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    with out, suppress(BrokenPipeError):
        try:
            spec, count, seed, exploration, reach, every, with_profile = settings
            version = weights.version.value
            policy = NumpyPolicy(weights.read(), count)
            envs = [gym.make(spec) for _ in range(count)]
            rollout = Rollout(envs, policy, seed, exploration, reach, state_every=every, with_profile=with_profile)
            for first in indices:
                if version != weights.version.value:
                    version = weights.version.value
                    policy.load(weights.read())
                out.send(rollout.round(range(first, first + count), steps.value))
                if stop.value:
                    break
        except Exception as error:
            out.send(_Failure(f"{type(error).__name__}: {error}", traceback.format_exc()))
