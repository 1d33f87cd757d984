"""`sami demo`: the first minute: a shipped policy, how often it succeeds, and a film of it adapting."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sami_train.studies.contexts.changed_episodes import ChangedEpisode

ENV, MODEL = "panda-mujoco", "panda-satesac"
CHANGE = "mass=10,friction=0.1:10@4"
"""The table becomes rough under a heavy cube, which the policy was about to push."""
SHOWN_TASKS = ({"mass": 1.0, "friction": 5.0}, {"mass": 5.0, "friction": 1.0}, {"mass": 10.0, "friction": 0.1})
PAIRS, FILMED = 20, 3
"""Starts of the change: compared, and filmed."""
LONG_ENOUGH = 10
"""An episode that ends sooner after the change shows nothing."""
SEED = 0
SLOWER = 2.0


def demo(
    out: Annotated[Path, typer.Option(help="Film to write: NAME.gif or NAME.webp.")] = Path("sami-demo.gif"),
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each training task.")] = 10,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier film.")] = False,
) -> None:
    """Watch the shipped Panda policy adapt: success in training tasks, then a change in the middle of an episode."""
    import numpy as np

    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output
    from sami_train.cores import usable_cores
    from sami_train.envs.catalog import environment
    from sami_train.evaluation.evaluate import evaluate
    from sami_train.studies.contexts.change import DynamicsChange
    from sami_train.studies.contexts.change_film import film_change, film_tasks, write_film
    from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, Variant

    from ..model_file import model_file

    require_output(out, force)
    model, spec = model_file(Path(MODEL)), environment(ENV)
    change = DynamicsChange.parse(CHANGE, spec.tasks, spec.episode_steps)
    print("A Panda arm, simulated by MuJoCo, moves a cube to its goal. The policy does not")
    print("observe the cube's mass or the table's friction: it infers a context from what")
    print("happens, and acts on that.\n")
    measured = evaluate(model, ENV, ["training"], episodes, usable_cores())
    print(f"Training tasks, {sum(result.episodes for result in measured.results)} episodes")
    print(f"  success {measured.success('training'):.2f}")
    runner = ChangedEpisodes(model, spec, PAIRS)
    try:
        seeds = range(SEED, SEED + PAIRS)
        starts = {variant: runner.round(seeds, change, variant) for variant in (Variant.LIVE, Variant.FROZEN)}
        print(f"\nThe friction jumps from 0.1 to 10 in mid-episode (10 kg, {PAIRS} starts)")
        for variant, meaning in ((Variant.LIVE, "as inferred"), (Variant.FROZEN, "as before the change")):
            share = np.mean([episode.success for episode in starts[variant]])
            print(f"  success {share:.2f}   context {meaning}")
    finally:
        runner.close()
    steps = range(0, spec.episode_steps, 2)
    filmed = _filmed(seeds, starts[Variant.LIVE], change.step)
    runner = ChangedEpisodes(model, spec, len(filmed))
    try:
        scenes = [film_tasks(runner, SHOWN_TASKS, SEED, steps, shadows=False)]
        scenes += film_change(runner, spec, change, filmed, steps, shadows=False)
        write_film(scenes, out, SLOWER, force)
        print(f"\nFilm: {out}")
    except SamiError as error:  # no OpenGL: everything but the film was shown
        print(f"\nNo film: {error}")
    finally:
        runner.close()
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        from .run import run

        print("A window shows three training episodes.")
        run(env=ENV, model=model, episodes=3, tasks="training", render="human")
    _next_commands()


def _filmed(seeds: Sequence[int], live: Sequence[ChangedEpisode], step: int) -> list[int]:
    """Return the first starts whose episode goes on for a while after the change."""
    long = [seed for seed, episode in zip(seeds, live, strict=True) if len(episode.contexts) >= step + LONG_ENOUGH]
    return long[:FILMED]


def _next_commands() -> None:
    """Print what to try next, as it works where this was started."""
    started = Path(sys.argv[0])
    sami = "sami" if not started.is_file() or started.is_absolute() else str(started)
    print(f"""
Next:
  {sami} run --env {ENV} --model {MODEL} --fix mass=10 --record run.mcap
  {sami} view run.mcap
  {sami} models""")
