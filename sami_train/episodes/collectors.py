"""Where episodes come from: this process, in step with learning, or processes of their own beside it."""

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
from sami_train.episodes.exploration import BehindGap, Exploration
from sami_train.episodes.numpy_policy import NumpyPolicy, NumpyWeights
from sami_train.episodes.rollout import Rollout
from sami_train.machine import one_thread

QUEUE_ROUNDS = 8
"""Rounds that wait for the learner before a collector waits too."""
PATIENCE_S = 600.0
"""Seconds without an episode from any collector after which they count as stuck; an episode takes seconds."""
LOCK_S = 1.0
"""Seconds that the learner waits for a collector that reads weights; it takes microseconds."""
BURST = 10
"""Updates between two looks at what collectors have brought."""


class CollectorError(SamiError):
    """A collector failed; the error's cause holds its traceback."""


class _Failure(NamedTuple):
    """What a collector sends in place of episodes when it cannot go on."""

    summary: str
    trace: str


class Source(Protocol):
    """Where the learner gets its episodes: it looks for new ones between its updates."""

    def updates(self, due: int) -> int:
        """Return how many of the updates that are due the learner makes before its next look."""

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Return the episodes that are there; where `wait` and none is, wait up to a second for one."""

    def publish(self, weights: NumpyWeights) -> None:
        """Give new weights to those who collect elsewhere."""

    def close(self) -> None:
        """Stop collecting."""


class InStep:
    """Collects one round at a time in this process: the same seed gives the same episodes.

    Args:
        rollout: what collects.
        policy: what it steps.
        newest: gives the learner's weights.
        next_index: number of the next episode.
    """

    def __init__(
        self, rollout: Rollout, policy: NumpyPolicy, newest: Callable[[], NumpyWeights], next_index: int = 0
    ) -> None:
        self.rollout, self.policy, self.newest, self.next_index = rollout, policy, newest, next_index

    def updates(self, due: int) -> int:
        """Make all that are due: what happens must not depend on how fast the machine is."""
        return due

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Run one round with the newest weights."""
        self.policy.load(self.newest())
        indices = range(self.next_index, self.next_index + len(self.rollout.envs))
        self.next_index = indices.stop
        return self.rollout.round(indices, steps_done)

    def publish(self, weights: NumpyWeights) -> None:
        """Do nothing: a round takes the newest weights itself."""

    def close(self) -> None:
        """Do nothing: the caller owns the environments."""


class SharedWeights:
    """The newest weights in shared memory: written without waiting for readers to ask, read when changed.

    A reader that was killed or stopped while it read keeps the lock: then nothing is written any more.
    """

    def __init__(self, weights: NumpyWeights, context: Any) -> None:
        self._shapes = {name: array.shape for name, array in weights.arrays.items()}
        self._rest = dataclasses.replace(weights, arrays={})
        self._memory = context.RawArray("f", sum(array.size for array in weights.arrays.values()))
        self._lock = context.Lock()
        self.version = context.RawValue("L", 0)
        self.write(weights)

    def write(self, weights: NumpyWeights) -> None:
        """Replace the weights by others of the same shapes."""
        if not self._lock.acquire(timeout=LOCK_S):
            return
        try:
            flat = np.frombuffer(self._memory, np.float32)
            np.concatenate([np.asarray(weights.arrays[name], np.float32).ravel() for name in self._shapes], out=flat)
            self.version.value += 1
        finally:
            self._lock.release()

    def read(self) -> NumpyWeights:
        """Copy the newest weights."""
        with self._lock:
            flat = np.frombuffer(self._memory, np.float32).copy()
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape, dtype=np.int64))
            arrays[name] = flat[start : start + size].reshape(shape)
            start += size
        return dataclasses.replace(self._rest, arrays=arrays)


class Processes:
    """Collects in processes beside the learner; none of them imports torch.

    Args:
        spec: of the environment, as `env.spec` gives it.
        envs: environments stepped side by side in each process.
        collectors: number of processes.
        weights: first weights.
        seed, exploration, reach: see `Rollout`.
        next_index: number of the next episode; collector i of n takes every n-th round from there.
        state_every, behind: see `Rollout`.
    """

    def __init__(
        self,
        spec: Any,
        envs: int,
        collectors: int,
        weights: NumpyWeights,
        seed: int,
        exploration: Exploration,
        reach: Reach | None,
        next_index: int = 0,
        state_every: int = 0,
        behind: BehindGap | None = None,
    ) -> None:
        context = mp.get_context("spawn")
        self.patience_s, self._arrived_at = PATIENCE_S, time.monotonic()
        self._weights = SharedWeights(weights, context)
        # Without locks, which a killed collector would keep.
        self._steps, self._stop = context.RawValue("q", 0), context.RawValue("b", 0)
        self._arrived: queue.Queue[Sequence[Episode] | _Failure] = queue.Queue(QUEUE_ROUNDS * max(1, collectors))
        self._processes: list[Any] = []
        self._readers: list[threading.Thread] = []
        self._last_report: dict[str, float] = {}
        # Without stable-baselines3's Monitor, which a spec cannot make again.
        wrappers = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.name != "Monitor")
        spec = dataclasses.replace(spec, additional_wrappers=wrappers)
        settings = (spec, envs, seed, exploration, reach, state_every, behind)
        with one_thread():
            for i in range(collectors):
                reader, writer = context.Pipe(duplex=False)
                indices = range(next_index + i * envs, 2**62, envs * collectors)
                arguments = (settings, indices, self._weights, self._steps, self._stop, writer)
                name = f"collector-{i}"
                self._last_report[name] = time.monotonic()
                self._processes.append(context.Process(target=_collect, name=name, daemon=True, args=arguments))
                self._processes[-1].start()
                writer.close()  # so that the pipe ends with the process
                self._readers.append(threading.Thread(target=self._read, args=(name, reader), daemon=True))
                self._readers[-1].start()

    def updates(self, due: int) -> int:
        """Make a few: what the collectors bring must not wait long."""
        return min(due, BURST)

    def collect(self, wait: bool, steps_done: int) -> list[Episode]:
        """Take the rounds that have arrived.

        Raises:
            CollectorError: a collector failed or died.
        """
        self._steps.value = steps_done
        episodes: list[Episode] = []
        while True:
            try:
                arrived = self._arrived.get(wait and not episodes, 1.0)
            except queue.Empty:
                self._check_alive()
                if wait and time.monotonic() - self._arrived_at > self.patience_s:
                    raise CollectorError(
                        f"no collector brought an episode within {self.patience_s:g} s: they are stopped, or hang. "
                        "Look what they wait for, and go on with --resume."
                    ) from None
                return episodes  # also of none: somebody may want the learner to stop
            if isinstance(arrived, _Failure):
                raise CollectorError(f"a collector failed: {arrived.summary}") from RuntimeError(arrived.trace)
            episodes += arrived
            self._arrived_at = time.monotonic()

    def publish(self, weights: NumpyWeights) -> None:
        """Give new weights to every collector; they take them at their next round."""
        self._weights.write(weights)

    def close(self) -> None:
        """Stop the processes."""
        self._stop.value = 1
        for process in self._processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()  # one that was stopped hears nothing else
                process.join()
        for reader in self._readers:
            reader.join()

    def _read(self, name: str, pipe: Any) -> None:
        """Take what a collector sends, to its end: a thread, for one that was stopped in a message is waited for."""
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
            # One that failed has sent why, and that is waiting, or about to be.
            if not (process.is_alive() or reader.is_alive()) and self._arrived.empty():
                raise CollectorError(
                    f"{process.name} died with exit code {process.exitcode}; was it killed for memory? "
                    "Go on with --resume."
                )
            if time.monotonic() - self._last_report[process.name] > self.patience_s:
                self._last_report[process.name] = math.inf  # once
                message = f"{process.name} brought nothing for {self.patience_s:g} s: it is stopped, or hangs."
                print(message, file=sys.stderr)


def _collect(
    settings: tuple[Any, ...],
    indices: range,
    weights: SharedWeights,
    steps: Any,
    stop: Any,
    out: Any,
) -> None:
    """Collect until told to stop, or until nobody reads it any more: the body of a collector process."""
    # Ctrl-C reaches the whole group, and Slurm's signals every process of a step; the learner alone decides to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    with out, suppress(BrokenPipeError):
        try:
            spec, count, seed, exploration, reach, state_every, behind = settings
            version = weights.version.value
            policy = NumpyPolicy(weights.read(), count)
            envs = [gym.make(spec) for _ in range(count)]
            rollout = Rollout(envs, policy, seed, exploration, reach, state_every=state_every, behind=behind)
            for first in indices:
                if version != weights.version.value:
                    version = weights.version.value
                    policy.load(weights.read())
                out.send(rollout.round(range(first, first + count), steps.value))
                if stop.value:
                    break
        except BrokenPipeError:
            raise
        except Exception as error:
            out.send(_Failure(f"{type(error).__name__}: {error}", traceback.format_exc()))
