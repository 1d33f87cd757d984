"""Training ranges: the spread of every signal in training, and its response to the action. No torch.

The model file acts in the training tasks. Training explored, and so saw more states than the trained policy reaches:
half of the actions of every second measured episode are random. Signals are measured with the sim-to-real profile of
the training, responses without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import Artifact, artifact_of, read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.model.response import probe
from sami_runtime.model.training_ranges import Response, Responses, Spread, TrainingRanges, rounded
from sami_runtime.signals import Signal
from sami_train import seeds
from sami_train.config.schema import present_names
from sami_train.envs.adapter import make_adapter
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.play import OnRound, playing
from sami_train.evaluation.recorded_policy import RecordedPolicy
from sami_train.export.model_file import recompose, write

SEED = seeds.TRAINING_RANGES
EPISODES = 120
"""Episodes, in all training tasks together."""
STARTS = 24
"""Starts from which responses are measured, in all training tasks together."""
SHARE = 0.1
"""Size of a move of an action element that measures responses, as a share of half its range."""
TICKS, SETTLE = 5, 5
"""Ticks of a move, and ticks of the neutral action after it."""
TRIES = 10
"""Most starts to try for each one needed: an episode may end before all moves are done."""
Contexts = Sequence[np.ndarray]
"""One task's episodes, each (T, C)."""


class MeasuredGap(NamedTuple):
    """The sim-to-real profile of measured episodes."""

    gap: GapProfile | None = None
    """The profile, or None."""
    clean_share: float = 0.0
    """Share of the episodes without the profile."""


def known_tasks(training: Mapping[str, Any], spec: EnvironmentSpec) -> Sequence[Task]:
    """Return a policy's training tasks: those in its contract, else the environment's training set."""
    return spec.tasks.resolve(training.get("tasks") or "training")


def known_gap(training: Mapping[str, Any]) -> MeasuredGap:
    """Return the profile that a policy was trained with, by its contract; SamiError if the entry is invalid."""
    config = training.get("config")  # a file from elsewhere may have any value here
    if not isinstance(config, Mapping) or not config.get("gap"):
        return MeasuredGap()
    with_profile = present_names(config).get("with_profile")
    share = with_profile.get("clean_share", 0.0) if isinstance(with_profile, Mapping) else 0.0
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise SamiError(
            f"its contract's training.config.with_profile.clean_share is {share!r}; it must be the share of episodes "
            "without the profile, from 0 to 1. It was changed after its export: export it from its run again."
        )
    return MeasuredGap(GapProfile.loads(str(config["gap"])), float(share))


def collect_contexts(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    tasks: Sequence[Task],
    episodes: int,
    seed: int,
    on_round: OnRound | None = None,
    profile: MeasuredGap | None = None,
) -> list[Contexts]:
    """Return a model file's contexts in `episodes` episodes of each of K tasks: K lists of arrays (T, C).

    Every episode has its own start, also across tasks, because held-out episodes must be independent. Without `profile`
    there is no sim-to-real profile.
    """
    task_of_episode = [task for task in tasks for _ in range(episodes)]

    def make_policy(rows: int) -> RecordedPolicy:
        return RecordedPolicy(SessionPolicy(model, spec, rows))

    rollouts = _drive(spec, make_policy, task_of_episode, seed, profile or MeasuredGap(), on_round)
    contexts = [contexts for _, _, contexts in rollouts]
    return [contexts[first : first + episodes] for first in range(0, len(contexts), episodes)]


def _drive(
    spec: EnvironmentSpec,
    make_policy: Callable[[int], RecordedPolicy],
    tasks: Sequence[Task],
    seed: int,
    profile: MeasuredGap,
    on_round: OnRound | None,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return observations (T, D), executed actions (T, A) and contexts (T, C) of one episode of each task."""
    stage = playing(spec, make_policy, len(tasks), gap=profile.gap, on_round=on_round, clean_share=profile.clean_share)
    with stage as (play, policy):
        _, lengths, _ = play(tasks, seed)
    episodes = zip(policy.episodes(), lengths, strict=False)
    return [(observed[:length], acted[:length], contexts[:length]) for (observed, acted, contexts), length in episodes]


def tasks_in_turn(tasks: Sequence[Task], episodes: int) -> list[Task]:
    """Return the task of each episode: K tasks in turn, so that each has even episodes and odd ones, which explore."""
    return [tasks[(k + k // (2 * len(tasks))) % len(tasks)] for k in range(episodes)]


def exploring(model: Path | Artifact, spec: EnvironmentSpec, rows: int) -> RecordedPolicy:
    """Return a recorded policy of a model file, in which every second row acts at random half of the time."""
    low, high = _bounds(spec.action)
    rng = np.random.default_rng(SEED)

    def explore(action: np.ndarray) -> np.ndarray:
        chance = rng.random(len(action)) < 0.5
        chance[::2] = False
        return np.where(chance[:, None], rng.uniform(low, high, action.shape), action).astype(np.float32)

    return RecordedPolicy(SessionPolicy(model, spec, rows), explore)


def measure_ranges(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    episodes: int = EPISODES,
    starts: int = STARTS,
    on_round: OnRound | None = None,
) -> TrainingRanges:
    """Return the training ranges, from `episodes` episodes over all training tasks, and responses from `starts` starts.

    Raises:
        AdapterError: the model reads or writes other signals than the environment has.
    """
    artifact = artifact_of(model)
    training = artifact.contract.training
    tasks, profile = known_tasks(training, spec), known_gap(training)
    task_of_episode = tasks_in_turn(tasks, episodes)
    rollouts = _drive(spec, lambda rows: exploring(artifact, spec, rows), task_of_episode, SEED, profile, on_round)
    observations = [observed for observed, _, _ in rollouts]
    flat = np.concatenate(observations)
    actions = np.concatenate([acted for _, acted, _ in rollouts])
    values = {**spec.layout.by_name(flat), spec.action.name: actions}
    first = spec.layout.by_name(np.stack([observed[0] for observed in observations]))
    return TrainingRanges(
        measured=(
            f"the file drove {episodes} episodes in the {len(tasks)} training tasks in turn, in every second one with "
            f"random actions half of the time; seed {SEED}"
        ),
        steps=len(flat),
        episodes=episodes,
        signals={name: Spread.of(value) for name, value in values.items()},
        begin={name: Spread.of(value) for name, value in first.items()},
        responses=measure_responses(spec, tasks, starts),
        repeats=measure_repeats(spec, profile.gap, observations) if profile.clean_share == 0 else {},
    )


def measure_repeats(
    spec: EnvironmentSpec, gap: GapProfile | None, observations: Sequence[np.ndarray]
) -> dict[str, int]:
    """Return the longest run of equal values, in ticks, of each signal with noise, by name.

    Signals without noise are left out, because they repeat whenever the world is at rest. The observations (T, D) of
    each episode were measured with the profile `gap`.
    """
    longest = {}
    for name in [] if gap is None else noisy_signals(gap, [signal.name for signal in spec.signals]):
        longest[name] = max(longest_repeat(spec.layout.by_name(episode, [name])[name]) for episode in observations)
    return longest


def noisy_signals(gap: GapProfile, names: Sequence[str]) -> list[str]:
    """Return the signals to which a profile adds noise in every episode, and which it neither rounds nor freezes.

    Relative noise does not count, because it vanishes at a value of 0.
    """
    source = {name: gap.same_as.get(name, name) for name in names}
    return [
        name
        for name in names
        if np.min(gap.of_signal("noise", source[name])) > 0.0
        and np.max(gap.of_signal("quantisation", source[name])) == 0.0
        and np.min(gap.of_signal("stuck_at_s", source[name])) == np.inf
    ]


def measure_responses(spec: EnvironmentSpec, tasks: Sequence[Task], starts: int) -> Responses | None:
    """Return the responses of all signals to small moves of each element of the action; each start draws a task.

    None if fewer than 2 starts give a response, because episodes end before the moves are done: a robot that falls with
    the neutral action.
    """
    low, high = _bounds(spec.action)
    size, rest = SHARE * (high - low) / 2, np.clip(np.zeros(spec.action.size, np.float32), low, high)
    answers: list[np.ndarray] = []
    # All moves together can take longer than an episode.
    with closing(make_adapter(spec, make(spec, tasks=list(tasks), max_episode_steps=1_000_000))) as robot:
        for number in range(TRIES * starts):
            answer = _answers(robot, rest, size, SEED + 1 + number)
            if answer is not None:
                answers.append(answer)
            if len(answers) == starts or (number >= starts and not answers):
                break
    if len(answers) < 2:
        return None
    responses = np.stack(answers)  # (starts, A, D)
    ends = np.cumsum([signal.size for signal in spec.signals])[:-1]
    mean, deviation = (np.split(part, ends, axis=1) for part in (responses.mean(axis=0), responses.std(axis=0)))
    return Responses(
        size=rounded(size),
        ticks=TICKS,
        settle=SETTLE,
        starts=len(answers),
        signals={
            signal.name: Response(mean=tuple(map(rounded, mean[at])), deviation=tuple(map(rounded, deviation[at])))
            for at, signal in enumerate(spec.signals)
        },
    )


def _answers(robot: GymnasiumAdapter, rest: np.ndarray, size: np.ndarray, seed: int) -> np.ndarray | None:
    """Return the responses (A, D) at one start; None if its episode ends.

    Each element is moved up and down from the same start, so that the robot's own motion, such as a fall, cancels out.
    """
    over = False

    def act(action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal over
        if not over:
            over = robot.write(action).done
        values = robot.read().values
        return action, np.concatenate([values[signal.name] for signal in robot.observation]).astype(np.float64)

    def answer(element: int, by: float) -> np.ndarray:
        robot.reset(seed)
        return probe(act, rest, element, by, TICKS, SETTLE)

    answers = [(answer(at, float(by)) + answer(at, -float(by))) / 2 for at, by in enumerate(size)]
    return None if over else np.stack(answers)


def _bounds(action: Signal) -> tuple[np.ndarray, np.ndarray]:
    """Return the action's lower and upper bounds, (A,) each; -1 and 1 for elements without bounds."""
    low = np.array([-1.0 if bound is None else bound for bound in action.low], np.float32)
    high = np.array([1.0 if bound is None else bound for bound in action.high], np.float32)
    return low, high


def longest_repeat(values: np.ndarray) -> int:
    """Return the longest run of bit-equal consecutive rows in values (T, size); 1 if none repeats.

    >>> longest_repeat(np.array([[1.0], [2.0], [2.0], [3.0]]))
    2
    """
    longest = count = 1
    for before, after in pairwise(values):
        count = count + 1 if before.tobytes() == after.tobytes() else 1
        longest = max(longest, count)
    return longest


def describe(model: Path, spec: EnvironmentSpec, ranges: TrainingRanges) -> Contract:
    """Write training ranges into a model file, and the spec's meanings of signals, frame and home pose.

    The signals' names, sizes, units and bounds stay.
    """
    artifact = read_artifact(model)
    contract = artifact.contract
    declared = {signal.name: signal for signal in (*spec.signals, spec.action)}

    def described(signal: Signal) -> Signal:
        return signal.model_copy(update={name: getattr(declared[signal.name], name) for name in ("meaning", "moves")})

    observation, action = tuple(map(described, contract.observation)), described(contract.action)
    changes = {"observation": observation, "action": action, "training_ranges": ranges, "sheet": spec.sheet}
    return write(recompose(artifact, changes))
