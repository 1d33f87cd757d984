"""The episodes of a report: their outcomes, their contexts at each step, and films of some episodes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.model.atlas import label
from sami_train import seeds
from sami_train.envs.make import make
from sami_train.envs.measure import SUCCESS, episode_skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.evaluate import in_turn
from sami_train.evaluation.model_policy import Source, policy_of
from sami_train.evaluation.play import ROWS, OnRound, playing, plays_in_batch, sharing, side_by_side
from sami_train.evaluation.recorded_policy import RecordedPolicy
from sami_train.evaluation.results import Evaluation
from sami_train.files import make_folder, unfinished

if TYPE_CHECKING:
    from PIL.Image import Image as Frame

SEED = seeds.REPORT
Schedule = Sequence[tuple[str, Task]]
"""Task set and task of each episode."""


@dataclass(frozen=True)
class ReportEpisode:
    """One episode of T steps."""

    task_set: str
    task: Task
    skill: str
    """The episode's skill, see `episode_skill`; empty if the environment labels no skills."""
    success: bool
    ret: float
    contexts: np.ndarray
    """The contexts that the encoder inferred before each step, (T, C)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{"task_set": self.task_set, "task": dict(self.task), "skill": self.skill, "success": self.success},
            **{"ret": self.ret, "steps": len(self.contexts)},
            "contexts": base64.b64encode(self.contexts.astype("<f4").tobytes()).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReportEpisode:
        """Read the values of `to_dict`."""
        fields = {name: value for name, value in values.items() if name not in ("steps", "contexts")}
        numbers = np.frombuffer(base64.b64decode(values["contexts"]), "<f4")
        return cls(**fields, contexts=numbers.reshape(values["steps"], len(numbers) // values["steps"]))


def schedule(spec: EnvironmentSpec, episodes: int, seed: int) -> list[tuple[str, Task]]:
    """Return the task set and the task of each episode.

    Args:
        spec: the environment.
        episodes: episodes per task, or per set if the measure is the return; then a set's tasks come in turn.
        seed: seed of the turns, which are as in evaluations.
    """
    tasks = [(name, spec.tasks.resolve(name)) for name in spec.tasks.sets]
    if spec.measure is SUCCESS:
        return [(name, task) for name, of_set in tasks for task in of_set for _ in range(episodes)]
    return [(name, of_set[turn]) for name, of_set in tasks for turn in sorted(in_turn(len(of_set), episodes, seed))]


def play_episodes(
    source: Source, spec: EnvironmentSpec, scheduled: Schedule, processes: int = 1, on_round: OnRound | None = None
) -> list[ReportEpisode]:
    """Play one episode for each scheduled task. The start of the k-th depends only on k, not on `processes`.

    Args:
        source: the policy.
        spec: the environment.
        scheduled: task set and task of each episode.
        processes: number of processes that share the episodes, or of threads if the simulation has native threads.
        on_round: called after each round with the number of episodes in it.
    """
    if plays_in_batch(spec, None):
        return _in_batch(source, spec, scheduled, processes, on_round)
    rows = side_by_side(len(scheduled), ROWS)
    firsts = range(0, len(scheduled), rows)
    episodes: list[ReportEpisode] = []
    stage = (source, spec, scheduled, rows)
    with sharing(_EpisodeWorker, stage, min(processes, len(firsts)), in_order=True) as run:
        for _, several in run(firsts):
            episodes += several
            if on_round is not None:
                on_round(len(several))
    return episodes


def _in_batch(
    source: Source, spec: EnvironmentSpec, scheduled: Schedule, threads: int, on_round: OnRound | None
) -> list[ReportEpisode]:
    def policy(rows: int) -> RecordedPolicy:
        return RecordedPolicy(policy_of(source, spec, rows))

    with playing(spec, policy, len(scheduled), threads, on_round=on_round) as (play, recorded):
        returns, *_ = play([task for _, task in scheduled], SEED)
    episodes = zip(scheduled, returns, recorded.episodes(), strict=False)  # a last round may have more rows
    return [
        ReportEpisode(name, dict(task), "", False, float(ret), contexts)
        for (name, task), ret, (*_, contexts) in episodes
    ]


class _EpisodeWorker:
    """The environments and the policy of one process."""

    def __init__(self, source: Source, spec: EnvironmentSpec, scheduled: Schedule, rows: int) -> None:
        self.spec, self.scheduled, self.rows = spec, scheduled, rows
        self.envs = [make(spec, max_episode_steps=spec.episode_steps) for _ in range(rows)]
        self.policy = RecordedPolicy(policy_of(source, spec, rows))
        self.rollout = Rollout(self.envs, self.policy, SEED, tasks=[task for _, task in scheduled])

    def close(self) -> None:
        """Close the simulators."""
        for env in self.envs:
            env.close()

    def run(self, first: int) -> list[ReportEpisode]:
        """Play the episodes from index `first` on, one in each row; return those within the schedule."""
        self.policy.rounds.clear()
        episodes = self.rollout.round(range(first, first + self.rows))
        return [
            ReportEpisode(
                task_set=self.scheduled[episode.index][0],
                task=dict(episode.task),
                skill=episode_skill(episode.skills, self.spec.skills) or "",
                success=episode.success,
                ret=episode.ret,
                contexts=contexts[: len(episode)],
            )
            for episode, (*_, contexts) in zip(episodes, self.policy.episodes(), strict=True)
            if episode.index < len(self.scheduled)
        ]


WIDTH, HEIGHT = 320, 240
"""Size of an image [pixels]; images of another size are scaled to this width."""
MOST_FRAMES = 120
"""Most frames of a film, which shows the beginning of a longer episode."""
FRAMES_HZ = 12.5
HOLD_S = 1.2
"""Duration of the last image [s]."""
QUALITY = 62
MOST_FILMS = 6
"""Most films in a report."""


def usual_tasks(spec: EnvironmentSpec, evaluation: Evaluation | None) -> list[Task]:
    """Return the default tasks to film: where the policy works, and where it fails.

    These are the task with the best score of the first and of the last set, and the task with the worst score of every
    set but the first. Without an evaluation, they are the first and the last task of each set.
    """
    film_tasks: list[Task] = []
    for number, (name, tasks) in enumerate(spec.tasks.sets.items()):
        results = [] if evaluation is None else evaluation.of(name)
        if results:
            by_success = spec.measure is SUCCESS
            results = sorted(results, key=lambda result: result.success if by_success else result.ret or 0.0)
            worst, best = results[0].task, results[-1].task
            last = number == len(spec.tasks.sets) - 1
            ends = [best] if number == 0 else [best, worst] if last else [worst]
        else:
            ends = [tasks[0], tasks[-1]]
        film_tasks += [dict(task) for task in ends if dict(task) not in film_tasks]
    return film_tasks[:MOST_FILMS]


def typical(all_episodes: Sequence[ReportEpisode], task: Task) -> int:
    """Return the index of a typical episode of a task: of median length among those with the most common outcome.

    Episodes that began at their goal (of one step) do not count. Return 0 if none is left.
    """
    episodes = [
        (n, episode)
        for n, episode in enumerate(all_episodes)
        if dict(episode.task) == dict(task) and len(episode.contexts) > 1
    ]
    if not episodes:
        return 0
    usual = sum(episode.success for _, episode in episodes) * 2 >= len(episodes)
    ended_so = sorted((len(episode.contexts), n) for n, episode in episodes if episode.success == usual)
    return ended_so[len(ended_so) // 2][1]


def require_renderer(spec: EnvironmentSpec) -> None:
    """Raise SamiError if a user's environment renders no image, e.g. because a package is not installed."""
    if spec.plain is None:
        return
    try:
        with closing(make(spec, render_mode="rgb_array")) as env:
            env.reset()
            fault = "its render() returns None" if env.render() is None else ""
    except Exception as error:  # the user's code can raise any exception
        fault = f"{type(error).__name__}: {error}"
    if fault:
        advice = "Install what is missing, or make the report without films: --set without=films"
        raise SamiError(f"{spec.name} cannot be filmed: {fault}. {advice}")


def film(source: Source, spec: EnvironmentSpec, task: Task, path: Path, number: int = 0) -> dict[str, Any]:
    """Play and film an episode of a task.

    Args:
        source: the policy.
        spec: the environment.
        task: the task, which is hidden from the policy.
        path: the file, NAME.webp; NAME.still.webp beside it is the last image, for readers who prefer no motion.
        number: index of the episode, which sets its start as in `play_episodes`.

    Returns:
        Plain values: the task, the outcome of the episode, and the names of both files.
    """
    size: dict[str, Any] = {"render_size": (WIDTH, HEIGHT)} if spec.plain is None else {}
    env = make(spec, max_episode_steps=spec.episode_steps, render_mode="rgb_array", **size)
    # A session with batch 1 has arrays without rows, so a second row plays the same episode and is ignored.
    other = make(spec, max_episode_steps=spec.episode_steps)
    every = max(1, round(spec.rate_hz / FRAMES_HZ))
    images: dict[int, np.ndarray] = {}

    def take(action: np.ndarray) -> np.ndarray:
        """Store an image before every n-th step, by the step's index; return the action unchanged."""
        step = len(policy.rounds[-1])
        if step % every == 0 and len(images) < MOST_FRAMES and (image := env.render()) is not None:
            images[step] = np.asarray(image)
        return action

    policy = RecordedPolicy(policy_of(source, spec, 2), take)
    with closing(env), closing(other):
        first, _ = Rollout([env, other], policy, SEED, tasks=[task]).round([number, number])
        (_, _, contexts), _ = policy.episodes()
        frames = [(image, contexts[step]) for step, image in images.items()]
        if len(first) <= every * MOST_FRAMES:
            frames.append((np.asarray(env.render()), frames[-1][1]))
    still = path.with_suffix(".still.webp")
    _save([image for image, _ in frames], [context for _, context in frames], every / spec.rate_hz, path, still)
    return {
        "task": dict(task),
        "title": label(task),
        "success": first.success if spec.measure is SUCCESS else None,
        "skill": episode_skill(first.skills, spec.skills) or "",
        "ret": first.ret,
        "steps": len(first),
        "shown_s": round(len(frames) * every / spec.rate_hz, 2),
        "film": path.name,
        "still": still.name,
    }


def _save(images: list[np.ndarray], contexts: list[np.ndarray], seconds: float, path: Path, still: Path) -> None:
    from PIL import Image

    largest = max([1e-6, *(float(np.abs(context).max(initial=0.0)) for context in contexts)])
    height = round(WIDTH * images[0].shape[0] / images[0].shape[1])
    frames = [
        _with_bars(Image.fromarray(image).convert("RGB").resize((WIDTH, height)), context / largest)
        for image, context in zip(images, contexts, strict=True)
    ]
    durations = [round(1000 * seconds)] * (len(frames) - 1) + [round(1000 * HOLD_S)]
    make_folder(path.parent)
    with unfinished(path) as temporary:
        more: dict[str, Any] = {"append_images": frames[1:], "duration": durations, "loop": 0, "method": 4}
        frames[0].save(temporary, "WEBP", save_all=True, quality=QUALITY, **more)
    with unfinished(still) as temporary:
        frames[-1].save(temporary, "WEBP", quality=QUALITY)


def _with_bars(frame: Frame, context: np.ndarray) -> Frame:
    """Return the frame with the context (C,), from -1 to 1, drawn as bars at the bottom left."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(frame)
    middle, width, reach = frame.height - 22, 9, 15
    for number, value in enumerate(context):
        left = 10 + number * (width + 3)
        top, bottom = sorted((middle, middle - round(reach * float(value))))
        draw.rectangle((left, top, left + width - 1, bottom), fill=(0, 114, 178))
    if len(context):
        draw.line((8, middle, 10 + len(context) * (width + 3), middle), fill=(110, 110, 116))
    return frame
