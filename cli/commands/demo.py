"""`sami demo`: show in a minute how often a shipped policy succeeds, and film how it adapts."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import closing
from pathlib import Path

from ..output import print_text, text_console

MODEL, FILM = "panda-satesac", Path("sami-demo.gif")
CHANGE = "mass=10,friction=0.1:10@6"
"""A change of friction under a heavy cube that the policy is about to push: the table becomes rough."""
EPISODES, PAIRS, FILMED = 10, 20, 3
"""Number of episodes of each training task, of compared episodes with the change, and of filmed ones."""
LONG_ENOUGH = 8
"""Steps after the change; the demo films episodes with fewer only if there are too few others."""
SEED = 0
ENGINES = {"panda-mujoco": "MuJoCo", "panda": "PyBullet"}
SLOWER = 2.0


def demo() -> None:
    """Watch the shipped Panda policy adapt: training tasks, then a change in mid-episode; writes sami-demo.gif."""
    import numpy as np

    from sami_runtime.errors import SamiError
    from sami_train.envs.catalog import environment
    from sami_train.evaluation.evaluate import evaluate
    from sami_train.machine import usable_cores
    from sami_train.studies.contexts.change_film import PANDA_TASKS, film_change, film_tasks, write_film
    from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, DynamicsChange, Variant

    from ..measuring import progress
    from ..model_file import named_file

    env = "panda-mujoco" if importlib.util.find_spec("mujoco") else "panda"  # Python 3.10 has no wheels of MuJoCo 4
    model, spec = named_file(MODEL), environment(env)
    change = DynamicsChange.parse(CHANGE, spec.tasks, spec.episode_steps)
    print_text(f"A Panda arm in {ENGINES[env]} moves a cube to its goal. The policy does not observe")
    print_text("the cube's mass or the table's friction: it infers a context from what happens,")
    print_text("and acts on that.\n")
    with progress("training tasks", len(spec.tasks.resolve("training"))) as advance:
        measured = evaluate(model, env, ["training"], EPISODES, usable_cores(), lambda _: advance(1))
    count = sum(result.episodes for result in measured.results)
    print_text(f"Training tasks, {count} episodes\n  success {measured.success('training'):.2f}\n")
    seeds = range(SEED, SEED + PAIRS)
    with closing(ChangedEpisodes(model, spec, PAIRS)) as runner:
        live, frozen = (runner.round(seeds, change, variant) for variant in (Variant.LIVE, Variant.FROZEN))
    compared = [k for k in range(PAIRS) if len(live[k].actions) > change.step]
    print_text(f"The friction jumps from 0.1 to 10 in mid-episode (10 kg, {len(compared)} episodes)")
    for outcomes, meaning in ((live, "as inferred"), (frozen, "frozen at the change")):
        print_text(f"  success {np.mean([outcomes[k].success for k in compared]):.2f}   context {meaning}")
    steps = range(0, spec.episode_steps, 2)
    long_first = sorted(range(PAIRS), key=lambda k: len(live[k].actions) < change.step + LONG_ENOUGH)
    filmed = sorted(seeds[k] for k in long_first[:FILMED])
    try:
        with text_console(error=True).status("filming"), closing(ChangedEpisodes(model, spec, FILMED)) as runner:
            scenes = [film_tasks(runner, PANDA_TASKS, SEED, steps, shadows=False)]
            scenes += film_change(runner, spec, change, filmed, steps, shadows=False)
            write_film(scenes, FILM, SLOWER, force=True)
        print_text(f"\nFilm: {FILM}")
    except SamiError as error:  # without rendering, the demo still shows everything but the film
        reason = error if env == "panda-mujoco" else "MuJoCo 4, which films, has wheels from Python 3.11 on."
        print_text(f"\nNo film: {reason}")
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        from .run import run

        print_text("A window shows three training episodes.")
        run(env=env, model=model, episodes=3, tasks="training", render="human")
    _print_next(env)


def _print_next(env: str) -> None:
    """Print commands to try next; after `make run`, `sami` is not on the PATH, so activate its environment first."""
    program = Path(sys.argv[0])
    activate = [f"  . {program.parent / 'activate'}"] if program.is_file() and not program.is_absolute() else []
    recorded = f"  sami run --env {env} --tasks moderate --record run.mcap"
    print_text("\nNext:", *activate, recorded, "  sami view run.mcap", "  sami models")
