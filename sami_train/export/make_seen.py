"""Measures what training saw: the spread of every signal, and how it answers to the action. No torch here.

The file itself drives the training tasks, as it does for its atlas. Training saw more than a trained policy shows: its
first episodes were random, the last ones explored. So in every second episode half of the actions are random. Signals
are measured as they arrived, behind the gap that it learned behind; responses without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import Artifact, artifact_of
from sami_runtime.model.seen import Response, Responses, Seen, Spread, longest_repeat, probe, rounded
from sami_runtime.signals import Signal
from sami_train import seeds
from sami_train.envs.make import make, make_adapter
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import RecordedPolicy, SessionPolicy
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.known import known_gap, known_tasks

SEED = seeds.TRAINING_RANGES
EPISODES = 120
"""In all training tasks together."""
STARTS = 24
"""Starts that responses are measured from, in all training tasks together."""
SHARE = 0.1
"""Of half the action's range: how far its elements are moved to see what answers."""
TICKS, SETTLE = 5, 5
"""Ticks of a move, and of rest after it."""
TRIES = 10
"""Starts that are tried for each that is wanted: at some the episode is over before the moves are."""


def exploring(model: Path | Artifact, spec: EnvironmentSpec, rows: int) -> RecordedPolicy:
    """Return a model file of which every second row acts at random half of the time, and which is recorded."""
    low, high = _bounds(spec.action)
    rng = np.random.default_rng(SEED)

    def explore(action: np.ndarray) -> np.ndarray:
        chance = rng.random(len(action)) < 0.5
        chance[::2] = False
        return np.where(chance[:, None], rng.uniform(low, high, action.shape), action).astype(np.float32)

    return RecordedPolicy(SessionPolicy(model, spec, rows), explore)


def measure_seen(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    episodes: int = EPISODES,
    starts: int = STARTS,
    seed: int = SEED,
    on_round: OnRound | None = None,
) -> Seen:
    """Return what training saw.

    Args:
        model: the file, or one in memory that is not written yet.
        spec: the environment that it was trained in.
        episodes: in all training tasks together, which are visited in turn.
        starts: that responses are measured from; at least 2.
        seed: of the episodes.
        on_round: called now and then with how many episodes are done since it was called last.

    Raises:
        AdapterError: the model reads or writes other signals than the environment has.
    """
    artifact = artifact_of(model)
    training = artifact.contract.training
    tasks, behind = known_tasks(training, spec), known_gap(training)
    task_of_episode = [tasks[k % len(tasks)] for k in range(episodes)]
    stage = playing(
        spec,
        lambda rows: exploring(artifact, spec, rows),
        episodes,
        gap=behind.gap,
        on_round=on_round,
        clean_share=behind.clean_share,
    )
    with stage as (play, policy):
        _, lengths = play(task_of_episode, seed)
    recorded = list(zip(policy.episodes()[:episodes], lengths, strict=True))
    observations = [observed[:length] for (observed, *_), length in recorded]
    flat = np.concatenate(observations)
    actions = np.concatenate([acted[:length] for (_, acted, _), length in recorded])
    values = {**spec.layout.by_name(flat), spec.action.name: actions}
    first = spec.layout.by_name(np.stack([observed[0] for observed in observations]))
    return Seen(
        measured=(
            f"the file drove {episodes} episodes in the {len(tasks)} training tasks in turn, in every second one with "
            f"random actions half of the time; seed {seed}"
        ),
        steps=len(flat),
        episodes=episodes,
        signals={name: Spread.of(value) for name, value in values.items()},
        begin={name: Spread.of(value) for name, value in first.items()},
        responses=measure_responses(spec, tasks, starts, seed),
        repeats=measure_repeats(spec, behind.gap, observations) if behind.clean_share == 0 else {},
    )


def measure_repeats(
    spec: EnvironmentSpec, gap: GapProfile | None, observations: Sequence[np.ndarray]
) -> dict[str, int]:
    """Return the longest run of equal values of each signal that had noise, by its name.

    A signal without noise repeats wherever the world rests, whatever it did in training, so nothing is said of it.

    Args:
        spec: the environment.
        gap: that the episodes were measured behind, in all of them.
        observations: (T, D) of each episode.
    """
    longest = {}
    for name in [] if gap is None else noisy_signals(gap, [signal.name for signal in spec.signals]):
        longest[name] = max(longest_repeat(spec.layout.by_name(episode, [name])[name]) for episode in observations)
    return longest


def noisy_signals(gap: GapProfile, names: Sequence[str]) -> list[str]:
    """Return the signals to which a profile adds noise in every episode, and which it neither rounds nor freezes.

    Noise that is a share of the value is none where the value is 0, so it does not count.
    """
    source = {name: gap.same_as.get(name, name) for name in names}
    return [
        name
        for name in names
        if np.min(gap.of_signal("noise", source[name])) > 0.0
        and np.max(gap.of_signal("quantisation", source[name])) == 0.0
        and np.min(gap.of_signal("stuck_at_s", source[name])) == np.inf
    ]


def measure_responses(spec: EnvironmentSpec, tasks: Sequence[Task], starts: int, seed: int = SEED) -> Responses | None:
    """Return how observations answer to small moves of each element of the action.

    None where hardly an episode lasts as long as the moves take: a robot that falls while it rests.

    Args:
        spec: the environment.
        tasks: one is drawn at each start.
        starts: how many, at least 2.
        seed: of the starts.
    """
    low, high = _bounds(spec.action)
    size, rest = SHARE * (high - low) / 2, np.clip(np.zeros(spec.action.size, np.float32), low, high)
    # Moves take longer than an episode may.
    robot = make_adapter(spec, make(spec, tasks=list(tasks), max_episode_steps=1_000_000))
    answers: list[np.ndarray] = []
    try:
        for number in range(TRIES * starts):
            answer = _answers(robot, rest, size, seed + 1 + number)
            if answer is not None:
                answers.append(answer)
            if len(answers) == starts or (number >= starts and not answers):
                break
    finally:
        robot.close()
    if len(answers) < 2:
        return None
    moved = np.stack(answers)  # (starts, A, D)
    ends = np.cumsum([signal.size for signal in spec.signals])[:-1]
    mean, deviation = (np.split(part, ends, axis=1) for part in (moved.mean(axis=0), moved.std(axis=0)))
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
    """Return the responses (A, D) at one start; None where its episode ends.

    Each side comes first once, from the same start, so that what the robot does by itself, such as fall, falls out.
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
    """Return the action's bounds (A,); 1 to either side where it has none."""
    low = np.array([-1.0 if bound is None else bound for bound in action.low], np.float32)
    high = np.array([1.0 if bound is None else bound for bound in action.high], np.float32)
    return low, high
