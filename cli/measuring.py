"""Shared parts of long measurements: progress bars, the output folder, and the place where jobs run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .options import FORCE, JSON, split_pair
from .output import print_text, text_console

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

    from sami_train.envs.spec import EnvironmentSpec
    from sami_train.evaluation.results import OnTask
    from sami_train.studies.sweep.engines import Engine

PARTS = 16
"""Number of jobs of a measurement on a cluster, if `jobs` is left out."""
PLACES = "a number of processes, slurm:KEY=VALUE,... or ray:ADDRESS,KEY=VALUE,..."
CLUSTERS = (
    "slurm:partition=gpu,time=240 (minutes): Slurm, with any option of sbatch. ray:ADDRESS,num_cpus=2: a Ray cluster, "
    "with the resources of a job."
)
On = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help=f"Where it is measured. A number, such as 4: processes of this machine (one per core if left out). "
        f"{CLUSTERS} jobs=N splits it into N jobs ({PARTS} if left out).",
    ),
]


def count_results(spec: EnvironmentSpec, task_sets: Sequence[str], episodes: int) -> int:
    """Return how many task results an evaluation will have."""
    counts = [len(spec.tasks.resolve(name)) for name in task_sets]
    return sum(counts if spec.measure.per == "task" else (min(count, episodes) for count in counts))


@contextmanager
def bars(*columns: ProgressColumn) -> Iterator[Progress]:
    """Show progress bars on standard error during a `with` block, if it is a terminal and without --json."""
    from rich.progress import Progress

    console = text_console(error=True)
    with Progress(*columns, console=console, disable=JSON.get() or not console.is_terminal, transient=True) as bar:
        try:
            yield bar
        except KeyboardInterrupt as error:
            raise error if error.args else KeyboardInterrupt("stopped; nothing was written") from None


def phase(bar: Progress, title: str, total: int) -> TaskID:
    """Add a progress bar for a phase of a command; where bars do not show, print its title on standard error."""
    if bar.disable and not JSON.get():
        print_text(f"{title} ...", error=True)
    return bar.add_task(title, total=total)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during a `with` block; yield a function that advances it by a number."""
    with bars() as bar:
        task = phase(bar, title, total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def task_progress(title: str, total: int, keep: Path | None = None) -> Iterator[OnTask]:
    """Lock the result `keep` and show a progress bar in a `with` block; yield a function to call with each result."""
    from sami_train.evaluation.result_store import keeping

    try:
        with keeping(keep), progress(title, total) as advance:
            yield lambda _: advance(1)
    except KeyboardInterrupt:
        stored = keep and f"{keep.parent} has the finished tasks or task sets, and the same command continues"
        raise KeyboardInterrupt(f"stopped; {stored or 'nothing is stored. --out FOLDER stores results'}") from None


def findings(folder: Path | None, name: str, plot: bool = True) -> tuple[Path, Path] | None:
    """Return the paths of a measurement's numbers (NAME.json) and plot (NAME.png), and create their folder.

    Called before a measurement: SamiError if the outputs exist (without --force) or cannot be written.
    """
    from sami_runtime.files import make_folder, require_output

    if folder is None:
        return None
    files = folder / f"{name}.json", folder / f"{name}.png"
    for path in files:
        require_output(path, FORCE.get(), makes_folder=True)
    if plot:
        import matplotlib  # noqa: F401

    make_folder(folder)
    return files


def write_findings(files: tuple[Path, Path], numbers: str, draw: Callable[[Path], object]) -> None:
    """Write a measurement's numbers and plot; the numbers get their name last, so that an interruption leaves none."""
    from sami_runtime.files import unfinished

    with unfinished(files[0]) as temporary:
        temporary.write_text(numbers + "\n", encoding="utf-8")
        draw(files[1])


class JobPlace(NamedTuple):
    """The place where jobs run."""

    kind: str = "cpu"
    """cpu (this machine), gpu (each GPU of this machine), slurm or ray."""
    jobs: int | None = None
    """Number of jobs at once, or None for the default."""
    address: str = ""
    """Address of the Ray cluster."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Options of sbatch, or resources of a Ray task, for each job."""

    @property
    def is_cluster(self) -> bool:
        """Whether jobs run on a cluster."""
        return self.kind in ("slurm", "ray")

    def engine(self, jobs: int, settings: Mapping[str, Any] | None = None) -> Engine:
        """Return the engine that runs `jobs` jobs in this place."""
        from sami_train.studies.sweep.engines import Local, Ray, Slurm

        settings = self.settings if settings is None else settings
        if self.kind == "slurm":
            return Slurm(jobs, settings)
        return Ray(jobs, self.address, settings) if self.kind == "ray" else Local(jobs)


def place_of(text: str | None, gpus: bool = False) -> JobPlace:
    """Parse `--on`: `4`, `slurm:time=240,jobs=8`, `ray:10.0.0.1:6379,num_cpus=2`, or with `gpus` also `gpu:4`."""
    from sami_runtime.files import toml_value

    if text is None:
        return JobPlace()
    kind, _, rest = text.partition(":")
    if kind in ("slurm", "ray"):
        parts, settings, address = rest.split(","), list[str](), ""
        if kind == "ray":
            address = "auto" if "=" in parts[0] else parts.pop(0) or "auto"
        for part in parts:
            if settings and part and "=" not in part:
                settings[-1] += f",{part}"  # a comma inside a value, as in nodelist=a,b
            elif part:
                settings.append(part)
        values = {key: toml_value(value) for key, value in (split_pair(s, "--on", "time=240") for s in settings)}
        jobs = values.pop("jobs", None)
        if jobs is None or (type(jobs) is int and jobs > 0):
            return JobPlace(kind, jobs, address, values)
        raise typer.BadParameter(f"--on {text}: jobs must be an integer of at least 1")
    number = rest if kind == "gpu" and gpus else text
    if number.isdecimal() and int(number):
        return JobPlace("cpu" if number == text else "gpu", int(number))
    raise typer.BadParameter(f"--on {text} names no place; give {PLACES}{', or gpu:N' if gpus else ''}")


def cluster_of(place: JobPlace, keep: Path | None) -> Engine | None:
    """Return the engine of a measurement on a cluster; None for a measurement on this machine."""
    if not place.is_cluster:
        return None
    if keep is None:
        raise typer.BadParameter(f"--on {place.kind} needs --out, a folder to which the jobs write their results")
    return place.engine(place.jobs or PARTS)
