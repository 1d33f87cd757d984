"""`sami fit-robot`: fit the physical parameters of a robot's model to the robot's recordings."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...measuring import bars
from ...options import FORCE, JSON
from ...output import plain_table, print_table, print_text

if TYPE_CHECKING:
    from sami_train.studies.fit_robot.fit import FittedRobot


def fit_robot(
    robot: Annotated[
        Path, typer.Argument(metavar="ROBOT", help="MJCF model, NAME.xml, or the NAME.toml that names it.")
    ],
    recordings: Annotated[list[Path], typer.Argument(metavar="RUN.mcap...", help="Recordings of the robot.")],
    out: Annotated[
        Path | None, typer.Option(help="The model to write, NAME.xml; a NAME.toml beside it has ranges for training.")
    ] = None,
) -> None:
    """Fit armature, friction, motor strength, delay and encoder bias of a robot's MJCF model to its recordings."""
    from sami_runtime.errors import SamiError, in_shell
    from sami_runtime.files import output, require_output
    from sami_runtime.recording.reader import values_of
    from sami_train.studies.fit_gap.trace import read_log
    from sami_train.studies.fit_robot.body import RobotBody
    from sami_train.studies.fit_robot.files import fitted_model, training_document
    from sami_train.studies.fit_robot.fit import fit_robot as fit

    if out is not None and out.suffix != ".xml":
        raise SamiError(f"{out} is no name of a model to write; give NAME.xml.")
    inputs = [robot, *recordings]
    outputs = [] if out is None else [out, out.with_suffix(".toml")]
    for path in outputs:
        require_output(path, FORCE.get(), inputs)
    with bars():
        log = read_log(recordings)
        body = RobotBody(robot, log.contract)
        for path in outputs:
            require_output(path, FORCE.get(), [body.xml])
        with values_of(recordings[0]):
            result = fit(body, log)
    is_fitted = any(fit.verdict != "not identifiable" for fit in result.parameters)
    if is_fitted and out is not None:  # before anything is printed, because the reader of a pipe may have gone
        with ExitStack() as stack:
            model, tasks = (stack.enter_context(output(path, FORCE.get(), [*inputs, body.xml])) for path in outputs)
            model.write_text(fitted_model(body, result, out.parent), encoding="utf-8")
            tasks.write_text(training_document(body, result, out), encoding="utf-8")
    if JSON.get():
        print(json.dumps(_document(result)))
    else:
        _show(result, recordings)
    if not is_fitted:
        raise SamiError(
            "nothing is identifiable, so nothing was written. Record larger or more motions: sami drive ROBOT.toml "
            "--excite --set episodes=20 --record run.mcap"
        )
    if outputs and not JSON.get():
        print_text(f"wrote {outputs[0]} and {outputs[1]}")
        if robot.suffix == ".xml":
            print_text(f"Add [[reward]] terms to {outputs[1]}: see docs/reference/robot-model-file.md")
        print_text(f"Next: sami train --env {in_shell(outputs[1])}")


def _show(result: FittedRobot, recordings: list[Path]) -> None:
    from rich.markup import escape

    fitted_to, held_out = result.windows
    table = plain_table(f"{fitted_to} windows of {', '.join(path.name for path in recordings)}", 1)
    for name in ("of", "parameter", "nominal", "fitted", "95 % interval"):
        table.add_column(name, overflow="fold")
    for fit in result.parameters:
        label = fit.parameter.field + ("" if fit.parameter.unit == "1" else f" [{fit.parameter.unit}]")
        value, interval = f"{fit.value:.4g}", f"{fit.low:.4g} to {fit.high:.4g}"
        if fit.verdict == "not identifiable":
            value, interval = "", fit.verdict
        elif fit.verdict == "rough":
            value += " rough"
        table.add_row(fit.parameter.of or "all", escape(label), f"{fit.parameter.nominal:.4g}", value, interval)
    print_table(table)
    if result.fixed:
        print_text(f"Not recorded, and taken for fixed: {', '.join(result.fixed)}.")
    for unit, (nominal, fitted_error) in result.replay.items():
        texts = [f"{error.value:.3g} {unit} ({error.low:.3g} to {error.high:.3g})" for error in (nominal, fitted_error)]
        print_text(f"Replay error of {held_out} windows that were held out: nominal {texts[0]}, fitted {texts[1]}.")


def _document(result: FittedRobot) -> dict[str, object]:
    """Return the result as values for `--json`."""
    rows = [
        {
            "parameter": fit.parameter.field,
            "of": fit.parameter.of,
            "unit": fit.parameter.unit,
            "nominal": fit.parameter.nominal,
            "value": fit.value,
            "interval": [fit.low, fit.high],
            "verdict": fit.verdict,
        }
        for fit in result.parameters
    ]
    replay = {
        unit: {name: error._asdict() for name, error in zip(("nominal", "fitted"), errors, strict=True)}
        for unit, errors in result.replay.items()
    }
    windows = dict(zip(("fitted", "held_out"), result.windows, strict=True))
    return {"parameters": rows, "replay_error": replay, "windows": windows, "not_recorded": list(result.fixed)}
