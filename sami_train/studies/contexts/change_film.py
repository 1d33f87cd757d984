"""Films of a policy: several hidden tasks side by side, or one change with a live and with a frozen context.

In a film of a change, both panels show the same model file, the same start and the same change. On the left, the policy
acts on the context that its encoder infers; on the right, it keeps the context of the step of the change. The chart
below shows the distance of the live context from the context of an episode without the change, and from that of an
episode with the new dynamics all along.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sami_runtime.errors import SamiError
from sami_runtime.files import output
from sami_runtime.model.atlas import text_of
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.studies.contexts.changed_episodes import ChangedEpisode, ChangedEpisodes, DynamicsChange, Variant

if TYPE_CHECKING:
    from sami_train.studies.contexts.film_camera import FilmCamera

FORMATS = (".gif", ".webp")
WIDTH, HEIGHT, TITLE, CHART, GAP = 960, 300, 40, 150, 8
"""Pixels: width of a film, heights of a picture, of the line above it and of the chart below, gap between pictures."""
SMOOTHED = 50
"""A context oscillates with the gait: the chart shows trailing means over 1/50 of an episode."""
HOLD_S = 1.5
"""Additional time of the last frame of a scene [s]."""
PANDA_TASKS: Sequence[Task] = (
    {"mass": 1.0, "friction": 5.0},
    {"mass": 5.0, "friction": 1.0},
    {"mass": 10.0, "friction": 0.1},
)
"""Training tasks that look different, for a film."""
GROUND, INK, QUIET, OLD, NEW, GOOD = "#14161a", "#e8eaed", "#8b929c", "#7aa2f7", "#f2a65a", "#7fd88f"


class FilmPanel(NamedTuple):
    """One episode in a film."""

    title: str
    episode: ChangedEpisode
    pictures: dict[int, np.ndarray]
    """Pictures by step, each (H, W, 3) uint8."""


class Course(NamedTuple):
    """How the live context moves from that of the old dynamics to that of the new ones."""

    change: DynamicsChange
    to_old: NDArray[np.float64]
    """Distance of the live context from the context of an episode without the change, (T,)."""
    to_new: NDArray[np.float64]
    """Distance of the live context from the context of an episode with the new dynamics all along, (T,)."""


class FilmScene(NamedTuple):
    """Episodes that a film shows side by side."""

    panels: tuple[FilmPanel, ...]
    rate_hz: float
    course: Course | None = None
    """The data of the chart; None if the dynamics do not change."""


def film_tasks(
    runner: ChangedEpisodes, tasks: Sequence[Task], seed: int, steps: range, shadows: bool = True
) -> FilmScene:
    """Film one episode of each task, a panel each, all from the same seed, with a picture at each of these steps.

    Shadows take most of the time.

    Raises:
        SamiError: MuJoCo does not simulate the environment, or there is no OpenGL.
    """
    panels = []
    for task in tasks:
        change = DynamicsChange(task, task, steps.stop)
        title = ", ".join(f"{name} {text_of(value)}" for name, value in task.items())
        (filmed,) = _filmed(runner, [seed] * runner.rows, 1, change, Variant.LIVE, steps, len(tasks), shadows)
        panels.append(FilmPanel(title, *filmed))
    return FilmScene(tuple(panels), runner.contract.rate_hz)


def film_change(
    runner: ChangedEpisodes,
    spec: EnvironmentSpec,
    change: DynamicsChange,
    seeds: Sequence[int],
    steps: range,
    shadows: bool = True,
) -> list[FilmScene]:
    """Film a change with a live and with a frozen context; return a scene for each seed, with a picture at each step.

    The runner must have a row for each seed. Shadows take most of the time.

    Raises:
        SamiError: MuJoCo does not simulate the environment, or there is no OpenGL.
    """
    starts = runner.round(seeds, change.along, Variant.LIVE)
    unchanged = runner.round(seeds, change, Variant.UNCHANGED)
    live, frozen = (
        _filmed(runner, seeds, len(seeds), change, variant, steps, 2, shadows)
        for variant in (Variant.LIVE, Variant.FROZEN)
    )
    window = max(1, spec.episode_steps // SMOOTHED)
    scenes = []
    for k in range(len(seeds)):
        length = len(live[k][0].contexts)
        mean, old, new = (
            _trailing_mean(episode.contexts, window, length) for episode in (live[k][0], unchanged[k], starts[k])
        )
        panels = (FilmPanel("live context", *live[k]), FilmPanel("frozen context", *frozen[k]))
        to_old, to_new = np.linalg.norm(mean - old, axis=1), np.linalg.norm(mean - new, axis=1)
        scenes.append(FilmScene(panels, runner.contract.rate_hz, Course(change, to_old, to_new)))
    return scenes


def write_film(scenes: Sequence[FilmScene], path: Path, slower: float = 1.0, force: bool = False) -> None:
    """Write scenes, one after the other, as an animated NAME.gif or NAME.webp of `slower` times their real duration.

    Raises:
        SamiError: the file has another suffix, or cannot be written.
    """
    if path.suffix not in FORMATS:
        raise SamiError(f"{path} is no film; name it NAME.gif or NAME.webp.")
    frames: list[Image.Image] = []
    durations: list[int] = []
    for scene in scenes:
        steps = sorted({t for panel in scene.panels for t in panel.pictures})
        stride = steps[1] - steps[0] if len(steps) > 1 else 1
        frames += [_frame(scene, t, steps) for t in steps]
        durations += [round(1000 * slower * stride / scene.rate_hz)] * len(steps)
        durations[-1] += round(1000 * HOLD_S)
    height = max(frame.height for frame in frames)
    frames = [_padded(frame, height) for frame in frames]
    if path.suffix == ".webp":
        options: dict[str, Any] = {"format": "WEBP", "quality": 70, "method": 4}
    else:
        frames = [frame.quantize(96, dither=Image.Dither.NONE) for frame in frames]
        options = {"format": "GIF", "optimize": True}
    with output(path, force) as temporary:
        frames[0].save(temporary, save_all=True, append_images=frames[1:], duration=durations, loop=0, **options)


def _filmed(
    runner: ChangedEpisodes,
    seeds: Sequence[int],
    count: int,
    change: DynamicsChange,
    variant: Variant,
    steps: range,
    panels: int,
    shadows: bool,
) -> list[tuple[ChangedEpisode, dict[int, np.ndarray]]]:
    """Run a variant; take pictures of its first `count` rows at each step of `steps` at which their episode runs."""
    size = ((WIDTH - GAP * (panels - 1)) // panels, HEIGHT)
    pictures: list[dict[int, np.ndarray]] = [{} for _ in range(count)]
    cameras: dict[int, FilmCamera] = {}

    def take(t: int, envs: Sequence[Any], running: Sequence[int]) -> None:
        for n in (row for row in running if row < count and t in steps):
            if n not in cameras:
                env = envs[n].unwrapped
                if not hasattr(env, "data"):
                    raise SamiError("only robots that MuJoCo simulates are filmed; for the Panda: --env panda-mujoco.")
                from sami_train.studies.contexts.film_camera import FilmCamera  # Python 3.10 has no MuJoCo 4

                cameras[n] = FilmCamera(env.model, env.data, size, shadows)
            pictures[n][t] = cameras[n].take()

    try:
        episodes = runner.round(seeds, change, variant, on_step=take)
    finally:
        for camera in cameras.values():
            camera.close()
    return list(zip(episodes[:count], pictures, strict=True))


def _trailing_mean(contexts: np.ndarray, window: int, length: int) -> NDArray[np.float64]:
    """Return the mean of the last `window` contexts at each step, (length, C); short episodes repeat their last one."""
    longer = contexts[np.minimum(np.arange(length), len(contexts) - 1)].astype(np.float64)
    sums = np.cumsum(np.concatenate([np.repeat(longer[:1], window, axis=0), longer]), axis=0)
    return (sums[window:] - sums[:-window]) / window


def _padded(frame: Image.Image, height: int) -> Image.Image:
    padded = Image.new("RGB", (WIDTH, height), GROUND)
    padded.paste(frame)
    return padded


def _frame(scene: FilmScene, t: int, steps: Sequence[int]) -> Image.Image:
    """Compose one frame."""
    title, small = ImageFont.load_default(19), ImageFont.load_default(14)
    course = scene.course
    frame = Image.new("RGB", (WIDTH, TITLE + HEIGHT + (CHART if course else 0)), GROUND)
    draw = ImageDraw.Draw(frame)
    for k, panel in enumerate(scene.panels):
        picture = Image.fromarray(panel.pictures[max(step for step in panel.pictures if step <= t)])
        left = k * (picture.width + GAP)
        frame.paste(picture, (left, TITLE))
        draw.text((left + 12, 9), panel.title, INK, title)
        label, colour = _outcome(panel.episode, t, course)
        draw.text((left + picture.width - 12, 12), label, colour, small, anchor="ra")
    if course is not None:
        _badge(draw, course.change, t, title)
        _chart(draw, course, t, steps, small)
    return frame


def _badge(draw: ImageDraw.ImageDraw, change: DynamicsChange, t: int, font: Any) -> None:
    """Draw the change as a badge at the top centre."""
    text, colour = (_wording(change), NEW) if t >= change.step else ("before the change", QUIET)
    half = draw.textlength(text, font) / 2 + 12
    draw.rounded_rectangle((WIDTH / 2 - half, TITLE + 8, WIDTH / 2 + half, TITLE + 38), 6, colour)
    draw.text((WIDTH // 2, TITLE + 23), text, GROUND, font, anchor="mm")


def _chart(draw: ImageDraw.ImageDraw, course: Course, t: int, steps: Sequence[int], font: Any) -> None:
    """Draw both distances up to step t, and a line at the step of the change."""
    top, bottom, left, right = TITLE + HEIGHT + 34, TITLE + HEIGHT + CHART - 12, 12, WIDTH - 12
    first, last = steps[0], min(steps[-1], len(course.to_old) - 1)
    curves = ((course.to_old, OLD, "the old dynamics"), (course.to_new, NEW, "the new dynamics"))
    highest = max(1e-9, *(distances[first : last + 1].max() for distances, _, _ in curves))
    label = "distance of the live context from"
    draw.text((left, top - 27), label, QUIET, font)
    end = left + draw.textlength(label, font) + 14
    draw.line((left, bottom, right, bottom), QUIET)

    def place(step: int, value: float) -> tuple[float, float]:
        along = (step - first) / max(1, steps[-1] - first)
        return left + along * (right - left), bottom - value / highest * (bottom - top)

    if t >= course.change.step:
        x, _ = place(course.change.step, 0.0)
        draw.line((x, top, x, bottom), QUIET)
    for distances, colour, name in curves:
        draw.text((end, top - 27), name, colour, font)
        end += draw.textlength(name, font) + 18
        line = [place(step, distances[step]) for step in range(first, min(t, last) + 1)]
        if len(line) > 1:
            draw.line(line, colour, 3, "curve")


def _outcome(episode: ChangedEpisode, t: int, course: Course | None) -> tuple[str, str]:
    """Return the text in a picture's corner at a step, and its colour."""
    if t >= len(episode.contexts):
        return ("goal reached", GOOD) if episode.success else ("not reached", NEW)
    if course is None or t < course.change.step or (episode.rewards <= 0).all():
        return "", QUIET  # a reward that is never positive only counts steps to the goal
    return f"return since the change {episode.rewards[course.change.step : t + 1].sum():,.0f}", QUIET


def _wording(change: DynamicsChange) -> str:
    """Return the features that change, as `mass 1 to 0.4`."""
    features = [name for name in change.before if change.before[name] != change.after[name]]
    return ", ".join(f"{name} {text_of(change.before[name])} to {text_of(change.after[name])}" for name in features)
