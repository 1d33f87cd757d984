"""A film of one change: the live context beside a frozen one, and how far the live context is from old and new.

Both policies are the same file, begin the same episode, and meet the same change. One acts on the context that its
encoder infers; the other keeps the context of the step at which the change happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sami_runtime.errors import SamiError
from sami_runtime.files import output
from sami_train.envs.mujoco.camera import Offscreen, beside, dress
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import shown
from sami_train.studies.contexts.change import DynamicsChange
from sami_train.studies.contexts.changed_episodes import ChangedEpisode, ChangedEpisodes, Variant

FORMATS = (".gif", ".webp")
WIDTH, TITLE, CHART, GAP = 960, 40, 150, 8
"""Pixels: of a film, of the line above the pictures, of the chart below, between the two."""
PANEL = ((WIDTH - GAP) // 2, 300)
SMOOTHED = 50
"""A context swings with the gait: the chart shows means over this fraction of an episode."""
LONGEST_HOLD_S = 1.5
"""How long the last picture of an episode stays."""
GROUND, INK, QUIET, OLD, NEW, GOOD = "#14161a", "#e8eaed", "#8b929c", "#7aa2f7", "#f2a65a", "#7fd88f"


class FilmedEpisode(NamedTuple):
    """One variant of an episode, with a picture for each filmed step."""

    episode: ChangedEpisode
    pictures: dict[int, np.ndarray]
    """By step, each (H, W, 3) uint8."""


class ChangeFilm(NamedTuple):
    """Everything a film shows of one start."""

    change: DynamicsChange
    rate_hz: float
    live: FilmedEpisode
    frozen: FilmedEpisode
    to_old: NDArray[np.float64]
    """Distance of the live context from the one that it would have without the change, (T,)."""
    to_new: NDArray[np.float64]
    """Distance of the live context from the one that it would have with the new dynamics all along, (T,)."""


def film_change(
    runner: ChangedEpisodes, spec: EnvironmentSpec, change: DynamicsChange, seeds: Sequence[int], steps: range
) -> list[ChangeFilm]:
    """Run a change from some starts, live and frozen, and take pictures.

    Args:
        runner: of the model file, with a row for each seed.
        spec: the environment, simulated by MuJoCo.
        change: what happens.
        seeds: of the starts, (n,).
        steps: which steps are filmed.

    Returns:
        A film of each start.

    Raises:
        SamiError: the environment is not MuJoCo's, or there is no OpenGL.
    """
    starts = runner.round(seeds, change.along, Variant.LIVE)
    unchanged = runner.round(seeds, change, Variant.UNCHANGED)
    live, frozen = (_filmed(runner, seeds, change, variant, steps) for variant in (Variant.LIVE, Variant.FROZEN))
    window = max(1, spec.episode_steps // SMOOTHED)
    films = []
    for k in range(len(seeds)):
        length = len(live[k].episode.contexts)
        mean = _trailing_mean(live[k].episode.contexts, window, length)
        old = _trailing_mean(unchanged[k].contexts, window, length)
        new = _trailing_mean(starts[k].contexts, window, length)
        to_old, to_new = (np.linalg.norm(mean - other, axis=1) for other in (old, new))
        films.append(ChangeFilm(change, runner.contract.rate_hz, live[k], frozen[k], to_old, to_new))
    return films


def write_film(films: Sequence[ChangeFilm], path: Path, frames_hz: float = 12.5) -> None:
    """Write films, one after the other, as an animated GIF or WebP.

    Args:
        films: what to show.
        path: `NAME.gif` or `NAME.webp`.
        frames_hz: pictures a second, of real time.

    Raises:
        SamiError: the name ends otherwise, or the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise SamiError(f"{path} is no film; name it NAME.gif or NAME.webp.")
    every = max(1, round(films[0].rate_hz / frames_hz))
    frames = [frame for film in films for frame in _frames(film, every)]
    duration = round(1000 * every / films[0].rate_hz)
    with output(path) as beside:
        if path.suffix == ".webp":
            options: dict[str, Any] = {"format": "WEBP", "quality": 70, "method": 4}
        else:
            frames = [frame.quantize(96, dither=Image.Dither.NONE) for frame in frames]
            options = {"format": "GIF", "optimize": True}
        frames[0].save(beside, save_all=True, append_images=frames[1:], duration=duration, loop=0, **options)


def _filmed(
    runner: ChangedEpisodes, seeds: Sequence[int], change: DynamicsChange, variant: Variant, steps: range
) -> list[FilmedEpisode]:
    """Run a variant and take a picture of every row at each step of `steps` in which its episode still runs."""
    pictures: list[dict[int, np.ndarray]] = [{} for _ in seeds]
    cameras: dict[int, Offscreen] = {}

    def take(t: int, envs: Sequence[Any], running: Sequence[int]) -> None:
        for n in running if t in steps else ():
            if n not in cameras:
                model, data = envs[n].unwrapped.model, envs[n].unwrapped.data
                if beside(model).type == TRACKING:
                    dress(model)
                cameras[n] = Offscreen(model, data, PANEL, shadows=True, view=beside(model))
            pictures[n][t] = cameras[n].take()

    try:
        episodes = runner.round(seeds, change, variant, on_step=take)
    finally:
        for camera in cameras.values():
            camera.close()
    return [FilmedEpisode(*pair) for pair in zip(episodes, pictures, strict=True)]


def _trailing_mean(contexts: np.ndarray, window: int, length: int) -> NDArray[np.float64]:
    """Return the mean of the last `window` contexts at each step (length, C); the last one stays where they end."""
    longer = contexts[np.minimum(np.arange(length), len(contexts) - 1)].astype(np.float64)
    sums = np.cumsum(np.concatenate([np.repeat(longer[:1], window, axis=0), longer]), axis=0)
    return (sums[window:] - sums[:-window]) / window


def _frames(film: ChangeFilm, every: int) -> list[Image.Image]:
    """Compose the frames of one start."""
    sides = (film.live, film.frozen)
    filmed = sorted({t for side in sides for t in side.pictures})
    steps = filmed[::every]
    ends = [len(side.episode.contexts) for side in sides]
    hold = round(LONGEST_HOLD_S * film.rate_hz / every)
    frames = [_frame(film, t, steps) for t in steps]
    return frames + [frames[-1]] * (hold if max(ends) <= steps[-1] + every else 1)


def _frame(film: ChangeFilm, t: int, steps: Sequence[int]) -> Image.Image:
    frame = Image.new("RGB", (WIDTH, TITLE + PANEL[1] + CHART), GROUND)
    draw = ImageDraw.Draw(frame)
    title, small = ImageFont.load_default(19), ImageFont.load_default(14)
    changed = t >= film.change.step
    for k, (side, name) in enumerate([(film.live, "live context"), (film.frozen, "frozen context")]):
        left = k * (PANEL[0] + GAP)
        picture = side.pictures[max(step for step in side.pictures if step <= t)]
        frame.paste(Image.fromarray(picture), (left, TITLE))
        draw.text((left + 12, 9), name, INK, title)
        label, colour = _outcome(side.episode, t)
        draw.text((left + PANEL[0] - 12, 12), label, colour, small, anchor="ra")
    said = f"{_task_change(film.change)} at {film.change.step / film.rate_hz:.3g} s" if changed else "before the change"
    bounds = draw.textbbox((0, 0), said, title)
    middle = (WIDTH - bounds[2]) // 2
    draw.rounded_rectangle((middle - 12, TITLE + 8, middle + bounds[2] + 12, TITLE + 38), 6, NEW if changed else QUIET)
    draw.text((WIDTH // 2, TITLE + 23), said, GROUND, title, anchor="mm")
    _chart(draw, film, t, steps, small)
    return frame


def _chart(draw: ImageDraw.ImageDraw, film: ChangeFilm, t: int, steps: Sequence[int], font: Any) -> None:
    """Draw both distances up to step t, and when the change happened."""
    top, bottom, left, right = TITLE + PANEL[1] + 34, TITLE + PANEL[1] + CHART - 12, 12, WIDTH - 12
    last = len(film.to_old) - 1
    highest = max(film.to_old[steps[0] : steps[-1] + 1].max(), film.to_new[steps[0] : steps[-1] + 1].max(), 1e-9)

    def place(step: int, value: float) -> tuple[float, float]:
        along = (step - steps[0]) / max(1, steps[-1] - steps[0])
        return left + along * (right - left), bottom - value / highest * (bottom - top)

    draw.text((left, top - 27), "the live context's distance from", QUIET, font)
    draw.text((left + 212, top - 27), "the old dynamics", OLD, font)
    draw.text((left + 340, top - 27), "the new dynamics", NEW, font)
    draw.line((left, bottom, right, bottom), QUIET)
    if t >= film.change.step:
        x, _ = place(film.change.step, 0.0)
        draw.line((x, top, x, bottom), QUIET)
    for distances, colour in ((film.to_old, OLD), (film.to_new, NEW)):
        line = [place(step, distances[step]) for step in range(steps[0], min(t, last) + 1)]
        if len(line) > 1:
            draw.line(line, colour, 3, "curve")


def _outcome(episode: ChangedEpisode, t: int) -> tuple[str, str]:
    """Return what the picture's corner says at a step, and in which colour."""
    over = t >= len(episode.contexts)
    if over:
        return ("goal reached", GOOD) if episode.success else ("time is up", NEW)
    return f"return since the start {episode.rewards[: t + 1].sum():,.0f}", QUIET


def _task_change(change: DynamicsChange) -> str:
    """Return the features that change, as `mass 1 -> 0.4`."""
    features = [name for name in change.before if change.before[name] != change.after[name]]
    return ", ".join(f"{name} {shown(change.before[name])} to {shown(change.after[name])}" for name in features)
