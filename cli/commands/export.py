"""`sami export`: write a trained run as one ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..measuring import bars, phase
from ..model_file import environment_of, model_file
from ..options import FORCE, MODEL_HELP, Key, OwnEnvironment, set_option, set_values
from ..output import print_text
from .inspect import lookahead_lines, probe_lines
from .studies.probe import EPISODES, model_with_probe

if TYPE_CHECKING:
    from rich.progress import Progress

    from sami_runtime.model.artifact import Artifact

SETTINGS = {
    "card": Key(bool, "whether to write a model card, too: NAME.md and NAME.png (true)"),
    "probe": Key(bool, "whether to fit a readout of the physics, too, as `sami probe` does (false)"),
    "atlas_episodes": Key(int, "episodes of each training task for the reference (20, or as many as it needs)"),
    "seen_episodes": Key(int, "episodes, in all training tasks, to measure what training saw (120)"),
    "lookahead_episodes": Key(int, "episodes to fit the forward model to, without --refit (600)", 20),
    "command_delay_s": Key(float, "seconds that an action took to have its effect, in --refit"),
    "limits": Key(str, "with --c, the gate's limits, a .toml or .json file (the contract's bounds)"),
}
"""Keys of `--set`. 0 episodes leave a part out."""


def export(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Model file to write, NAME.onnx; with --c, the folder.")],
    run: Annotated[Path | None, typer.Option(help="Run folder to export.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(help=f"{MODEL_HELP}, instead of a run: for --lookahead or --refit.", callback=model_file),
    ] = None,
    c: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a model file as C++17: policy, session and safety gate, without ONNX Runtime and heap.",
            callback=model_file,
        ),
    ] = None,
    env: OwnEnvironment = None,
    lookahead: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=16,
            metavar="K",
            help="Predict the present from observations up to K periods old: puts a forward model before the policy.",
        ),
    ] = None,
    refit: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Fit the forward model to a recording of your robot, NAME.mcap; may be given often."
        ),
    ] = None,
    override: Annotated[list[str] | None, set_option(SETTINGS)] = None,
) -> None:
    """Write a trained run as one ONNX file that agrees with torch, and its weights for `sami train --init`.

    With --force, also export a policy that has not learned.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.files import folder_of_outputs, require_output

    settings = set_values(SETTINGS, override)
    if c is not None:
        if any(value is not None for value in (run, model, env, lookahead, refit)) or settings.keys() - {"limits"}:
            raise typer.BadParameter("--c goes with --out and --set limits=FILE; there is nothing to train or fit")
        _write_cpp(c, out, settings.get("limits"))
        return
    if "limits" in settings:
        raise typer.BadParameter("limits goes with --c; a model file has no limits but its bounds")
    card = settings.setdefault("card", True)
    if (run is None) == (model is None):
        raise typer.BadParameter("give either --run or --model, or --c")
    if model is not None and lookahead is None and not refit:
        raise typer.BadParameter("--model goes with --lookahead or --refit; there is nothing else to change in a file")
    if model is not None and settings.get("probe"):
        raise typer.BadParameter("probe goes with --run; a file that is there takes one by: sami probe MODEL")
    if "command_delay_s" in settings and not refit:
        raise typer.BadParameter("command_delay_s goes with --refit")
    if out.suffix != ".onnx":
        raise SamiError(f"{out} does not end in .onnx; a model file is NAME.onnx.")
    suffixes = (".onnx", *((".safetensors",) if run else ()), *((".md", ".png") if card and run else ()))
    for path in map(out.with_suffix, suffixes):
        require_output(path, FORCE.get(), [model] if model is not None else [], makes_folder=True)
    from sami_train.files import locked

    context.with_resource(folder_of_outputs(out.parent))
    # The model and its weights belong together: two concurrent exports could mix one's model with the other's weights.
    busy = "is being written by {}; wait for it to end, or stop it."
    context.with_resource(
        locked(out.with_suffix(".lock"), lambda by: SamiError(f"{out} {busy.format(by)}"), leave=False)
    )
    look_ahead = partial(_look_ahead, out=out, steps=lookahead, recordings=refit or (), settings=settings)
    if model is not None:
        _export_model(model, out, look_ahead)
    elif run is not None:
        _export_run(run, out, settings, look_ahead if lookahead is not None or refit else None)


def _export_model(model: Path, out: Path, look_ahead: Callable[..., Artifact]) -> None:
    """Write a model file again, with a forward model before its policy."""
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import write

    with bars() as bar:
        contract = write(look_ahead(read_artifact(model), bar=bar))
    print_text(f"wrote {out}: {out.stat().st_size:,} bytes", *lookahead_lines(contract))


def _export_run(run: Path, out: Path, settings: dict[str, Any], look_ahead: Callable[..., Artifact] | None) -> None:
    """Write a run as a model file, and print what it lacks and what comes next."""
    from sami_runtime.errors import in_shell
    from sami_train.envs.catalog import by_name, environment
    from sami_train.export.export_run import Addition, export_run
    from sami_train.runs.folder import RunFolder

    folder, probe = RunFolder.open(run), settings.get("probe", False)
    spec = environment(folder.config().env)
    with bars() as bar:
        task_of = cache(partial(phase, bar, "playing episodes to measure contexts and observations"))
        additions: list[Addition] = [] if look_ahead is None else [partial(look_ahead, bar=bar)]
        if probe:
            additions.append(lambda file: model_with_probe(file, out, spec, EPISODES, bar))
        result = export_run(
            folder,
            out,
            atlas_episodes=settings.get("atlas_episodes"),
            seen_episodes=settings.get("seen_episodes", 120),
            additions=additions,
            card=settings["card"],
            untrained=FORCE.get(),
            on_round=lambda more, total: bar.advance(task_of(total), more) if total else None,
        )
    contract = result.contract
    parity = f", parity with torch within 1e-5 over {contract.golden.steps} steps" if contract.golden else ""
    print_text(f"wrote {out}: {out.stat().st_size:,} bytes{parity}")
    print_text(f"wrote {result.weights}: {result.weights.stat().st_size:,} bytes, which sami train --init starts from")
    print_text(*lookahead_lines(contract), *(probe_lines(contract) if probe else ()))
    option, source, file = by_name(spec.name), in_shell(run), in_shell(out)
    if contract.evaluation is None:
        print_text(f"it has no evaluation: to include one, run `sami eval --run {source}{option}` and export again")
    if contract.atlas is None and contract.context is not None:
        print_text(f"it has no in-distribution reference: `sami atlas {file}{option}` adds one")
    if contract.training_ranges is None:
        print_text(f"it has no training ranges: `sami describe {file}{option}` adds them")
    print_text(*(f"wrote {path}" for path in result.card))
    if (steps := contract.training.get("steps", 0)) < (total := folder.config().steps):
        ending = "" if RunFolder(folder.run).agent.is_file() else "; the run is not finished: export again at its end"
        print_text(f"this is the run's checkpoint of step {steps:,} of {total:,}{ending}")
    print_text(f"Next:\n  sami verify {file}\n  sami run --model {file}{option}")


def _write_cpp(file: Path, folder: Path, limits: str | None) -> None:
    """Write a model file as a header and a source."""
    from sami_runtime.errors import SamiError, in_shell
    from sami_runtime.files import make_folder, output
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.robots.c_export.export import cpp_sources
    from sami_runtime.safety.limits import Limits

    if folder.suffix == ".onnx" or folder.is_file():
        raise SamiError(f"{folder} is no folder; --c writes a header and a source. Name a folder, e.g. --out policy.")
    texts = cpp_sources(read_artifact(file), None if limits is None else Limits.load(limits))
    make_folder(folder)
    for name, text in texts.items():
        with output(folder / name, FORCE.get()) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print_text(f"wrote {folder / name}: {len(text):,} bytes")
    source = folder / [*texts][1]
    print_text(f"Next:\n  c++ -std=c++17 -O2 -march=native -ffp-contract=off -c {in_shell(source)}")


def _look_ahead(
    artifact: Artifact,
    out: Path,
    bar: Progress,
    steps: int | None,
    recordings: Sequence[Path],
    settings: Mapping[str, Any],
) -> Artifact:
    """Fit a forward model, and return the model file with the forward model before the policy; write nothing.

    The training data are recordings or, without recordings, episodes that this function rolls out in the environment.
    """
    import onnx

    from sami_runtime.errors import SamiError
    from sami_train.studies.lookahead.fit import UPDATES, fit
    from sami_train.studies.lookahead.forward_model import forward_of, require_steps, with_lookahead
    from sami_train.studies.lookahead.stretches import recorded_stretches, roll_out

    contract, start, episodes = artifact.contract, None, settings.get("lookahead_episodes", 600)
    if steps is None:
        if contract.lookahead is None:
            raise SamiError(f"{artifact.path} does not look ahead yet; say by how many periods, e.g. --lookahead 3.")
        steps = contract.lookahead.steps
    require_steps(steps)
    if recordings:
        stretches = recorded_stretches(recordings, artifact, settings.get("command_delay_s"))
        start = forward_of(onnx.load_from_string(artifact.model_bytes))  # of another robot or simulator
        origin = f"{len(stretches)} stretches of {', '.join(path.name for path in recordings)}"
    else:
        spec = environment_of(contract, None)
        rolled = phase(bar, f"rolling out {episodes} episodes", episodes)
        stretches = roll_out(artifact, spec, episodes, on_round=lambda count: bar.advance(rolled, count))
        origin = f"{episodes} episodes in {spec.name}, in every second one with random actions half of the time"
    fitting = phase(bar, f"fitting a forward model in up to {UPDATES:,} updates", UPDATES)
    forward = fit(
        stretches, contract.observation, steps, on_update=lambda count: bar.advance(fitting, count), start=start
    )
    return with_lookahead(artifact, out, steps, forward, origin)
