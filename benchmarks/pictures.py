"""Redraws every picture and card of the README and the docs from the models and results in the repository.

    python benchmarks/pictures.py [--list] [NAME...]

Without names it makes all, which takes a while: it renders films, and measures a report. A name is that of a file, or
of a folder of results; a card includes its curve. The plots of `sami adapt` and `sami robustness` in results/ are not
made again, since that would need new measurements, by the commands in docs/results/adaptation-panda.md and
docs/results/robustness.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import drawings

ROOT = Path(__file__).resolve().parents[1]
MODELS, STUDY = Path("models"), "results/models"
HERO_SECONDS = 2.5, 9.0
"""Numbers of filmed steps before and after the change, for running robots."""
FILMS = {
    "docs/pictures/half-cheetah-lighter.webp": ("half-cheetah", "mass=1:0.4,damping=1@300", (102,), 1.0),
    "docs/pictures/crippled-half-cheetah.webp": (
        "crippled-half-cheetah",
        "mass=1,damping=1,crippled=3:0@500",
        (102,),
        1.0,
    ),
    "docs/pictures/panda-rougher.webp": ("panda-mujoco", "mass=10,friction=0.1:10@6", (0, 1, 3), 2.0),
}
"""Films of a change: environment, change, seeds of the starts, and factor of slow motion."""


class TaskFilm(NamedTuple):
    """A film of a policy's file in several tasks, side by side."""

    model: Path
    seeds: tuple[int, ...]
    """Of the starts; each is a scene."""
    tasks: tuple[Mapping[str, float], ...] | None = None
    """Panda's of the film if None."""
    environment: str = "panda-mujoco"
    steps: range = range(50)
    slow_motion: float = 2.0
    """Factor by which the film is slower than the robot."""


TASK_FILMS = {
    "docs/pictures/panda-tasks.webp": TaskFilm(MODELS / "panda-satesac.onnx", (0, 1, 3)),
    "docs/pictures/panda-heavy.webp": TaskFilm(
        MODELS / "panda-heavy-tesac.onnx",
        (3, 18, 23),
        ({"mass": 10.0, "friction": 1.0}, {"mass": 30.0, "friction": 1.0}, {"mass": 30.0, "friction": 10.0}),
    ),
    "docs/pictures/humanoid-kneels.webp": TaskFilm(
        MODELS / "humanoid-standup-satesac.onnx",
        (0,),
        ({"mass": 0.6, "damping": 0.6}, {"mass": 1.0, "damping": 1.0}, {"mass": 1.6, "damping": 1.6}),
        environment="humanoid-standup",
        steps=range(0, 240, 5),
        slow_motion=1.0,
    ),
    "docs/pictures/humanoid-stands.webp": TaskFilm(
        Path("results/humanoid-stand-ups/standing.onnx"),
        (0,),
        ({"mass": 0.8, "damping": 1.25}, {"mass": 1.0, "damping": 1.0}, {"mass": 1.25, "damping": 0.8}),
        environment="humanoid-standup",
        steps=range(0, 360, 5),
        slow_motion=1.0,
    ),
}
REPORT = "docs/report.png"
SUMMARY = Path("results/panda-report.json")
"""Numbers of the report in that picture, which docs/how-to/report.md quotes."""
REPORTED = "panda-satesac"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
WINDOW = "1180,1560"


def main() -> None:
    """Make the named pictures and cards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="print the names, and draw nothing")
    options = parser.parse_args()
    os.chdir(ROOT)  # cards have paths relative to the repository
    printers = pictures()
    if options.list:
        print("\n".join(printers))
        return
    for name in options.names:
        if name not in printers:
            parser.error(f"there is no picture {name}; there are: {', '.join(printers)}")
    for name in options.names or printers:
        print(f"{name} ...", flush=True)
        printers[name]()


def pictures() -> dict[str, Callable[[], None]]:
    """Return a function that makes each picture or card, by its path."""
    compared = {out: partial(_sami, words) for out, words in _comparisons().items()}
    return {
        **{path.with_suffix(".md").as_posix(): partial(card, path) for path in sorted(MODELS.glob("*.onnx"))},
        **{path: partial(film, Path(path)) for path in FILMS},
        **{path: partial(film_of_tasks, Path(path)) for path in TASK_FILMS},
        **{path: partial(drawings.write, path) for path in drawings.drawings()},
        "docs/log_k.png": partial(_run, ["benchmarks/log_k.py", "--plot", "docs/log_k.png"]),
        **compared,
        "results/scoreboard": partial(_run, ["-m", "benchmarks.scoreboard", "curves"]),
        REPORT: partial(screenshot, Path(REPORT)),
    }


def card(model: Path) -> None:
    """Write a shipped model's card and its curve, from the file itself and from its run's line in results/models."""
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.card import card_files
    from sami_train.files import unfinished
    from sami_train.studies.sweep.study import find_runs

    contract = read_artifact(model).contract
    training = contract.training
    compared_keys = ("env", "preset", "seed"), ("steps",)
    for run in find_runs([Path(STUDY)]):
        same = all(run.config.get(key) == training.get(key) for key in compared_keys[0])
        if same and all(run.facts.get(key) == training.get(key) for key in compared_keys[1]):
            for path, content in card_files(run, contract, model).items():
                with unfinished(path) as file:
                    file.write_bytes(content)
            return
    raise SystemExit(f"{STUDY} holds no run of {model}: sami gather RUN... --out {STUDY}/runs.jsonl")


def film(path: Path) -> None:
    """Film a change in the middle of an episode, and the shipped policy of its environment."""
    from sami_train.envs.catalog import environment
    from sami_train.studies.contexts.change_film import film_change, write_film
    from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, DynamicsChange

    name, change_text, seeds, slower = FILMS[path.as_posix()]
    spec = environment(name)
    runner = ChangedEpisodes(MODELS / f"{name.removesuffix('-mujoco')}-satesac.onnx", spec, max(2, len(seeds)))
    every = max(1, round(spec.rate_hz / 12.5))
    change = DynamicsChange.parse(change_text, spec.tasks, spec.episode_steps)
    before, after = (round(seconds * spec.rate_hz) for seconds in HERO_SECONDS)
    steps = range(max(0, change.step - before), min(spec.episode_steps, change.step + after), every)
    starts = seeds if len(seeds) > 1 else (*seeds, seeds[0] + 1)  # a single row cannot be stepped
    with closing(runner):
        scenes = film_change(runner, spec, change, starts, steps)[: len(seeds)]
    write_film(scenes, path, slower, force=True)


def film_of_tasks(path: Path) -> None:
    """Film a policy in several tasks, in MuJoCo."""
    from sami_train.envs.catalog import environment
    from sami_train.studies.contexts.change_film import PANDA_TASKS, film_tasks, write_film
    from sami_train.studies.contexts.changed_episodes import ChangedEpisodes

    film = TASK_FILMS[path.as_posix()]
    rows = max(2, len(film.seeds))  # a single row cannot be stepped
    with closing(ChangedEpisodes(film.model, environment(film.environment), rows)) as runner:
        scenes = [film_tasks(runner, film.tasks or PANDA_TASKS, seed, film.steps) for seed in film.seeds]
    write_film(scenes, path, film.slow_motion, force=True)


def screenshot(path: Path) -> None:
    """Make a report, and take a screenshot of its beginning with Chromium."""
    browser = next((result for name in CHROMIUM if (result := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"{path} is photographed with Chromium, which is not here; on Debian: apt install chromium")
    with TemporaryDirectory() as folder:
        _sami(["report", *REPORTED.split(), "--out", folder])
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WINDOW}"]
        options += [
            f"--user-data-dir={folder}/profile",
            f"--screenshot={path.resolve()}",
        ]
        address = (Path(folder) / "report.html").resolve().as_uri()
        subprocess.run([browser, *options, address], check=True, stderr=subprocess.DEVNULL)
        summary = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    table = {"command": f"sami report {REPORTED} --out DIR", "subjects": summary["subjects"]}
    SUMMARY.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    from PIL import Image

    with Image.open(path) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True)


def _comparisons() -> dict[str, list[str]]:
    """Return the commands in results/README.md that write a folder, by that folder."""
    lines = (ROOT / "results" / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("    sami compare ") and " --out " in line]
    return {words[words.index("--out") + 1]: words for words in commands}


def _sami(words: list[str]) -> None:
    _run(["-c", "from sami_cli.app import main; main()", *words])


def _run(words: list[str]) -> None:
    subprocess.run([sys.executable, *words], check=True)


if __name__ == "__main__":
    main()
