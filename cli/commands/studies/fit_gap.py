"""`sami fit-gap`: fit a sim-to-real profile to a robot's recordings."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Annotated

import typer

from ...measuring import bars
from ...model_file import environment_of
from ...options import FORCE, JSON
from ...output import plain_table, print_table, print_text


def fit_gap(
    recordings: Annotated[list[Path], typer.Argument(metavar="RUN.mcap...", help="Recordings of one robot.")],
    out: Annotated[Path | None, typer.Option(help="The profile to write: NAME.toml.")] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(help="Recordings of the simulator without a profile; if left out, it runs the same commands."),
    ] = None,
    env: Annotated[str | None, typer.Option(help="That simulator; the model's own environment if left out.")] = None,
) -> None:
    """Fit a sim-to-real profile to recordings: latency, command delay, lag, noise, bias, rounding, dropout."""
    from sami_runtime.errors import SamiError, quantity
    from sami_runtime.files import output, require_output
    from sami_runtime.recording.reader import values_of
    from sami_train.studies.fit_gap.fit import document_of, require_excitation, summary_lines
    from sami_train.studies.fit_gap.fit import fit_gap as fit
    from sami_train.studies.fit_gap.trace import read_log, simulated

    if out is not None and out.suffix != ".toml":
        raise SamiError(f"{out} is no name of a profile to write; give NAME.toml.")
    inputs = [*recordings, *(reference or ())]
    if out is not None:
        require_output(out, FORCE.get(), inputs)
    if reference and env is not None:
        raise typer.BadParameter("--reference takes the simulator's place; leave out --env")
    with bars():
        log = read_log(recordings)
        require_excitation(log)  # before anything is simulated
        if reference:
            other = read_log(reference)
            robots = [(recorded.contract.observation, recorded.contract.action) for recorded in (log, other)]
            if robots[0] != robots[1]:
                raise SamiError(f"{reference[0]} has other signals than {recordings[0]}. Record with the same model.")
            if any(filecmp.cmp(path, recording, shallow=False) for path in reference for recording in recordings):
                raise SamiError("--reference is a recording of the robot itself; give one of the simulator (no --gap).")
            traces = list(other.traces)
        else:
            traces = simulated(environment_of(log.contract, env), log.traces)
        with values_of(recordings[0]):
            gap_fit = fit(log, traces)
    if out is not None:
        with output(out, FORCE.get(), inputs) as temporary:
            temporary.write_text(document_of(gap_fit), encoding="utf-8")
    if JSON.get():
        estimates = [{**vars(item), "estimate": item.estimate._asdict()} for item in gap_fit.estimates]
        result = {
            "gap": gap_fit.profile.to_dict(),
            "found": estimates,
            "untold": gap_fit.unidentified,
            "held_out": gap_fit.checks,
            "notes": gap_fit.notes,
        }
        print(json.dumps(result))
        return
    table = plain_table(f"{quantity(gap_fit.episodes, 'episode')} of {', '.join(gap_fit.names)}", 1)
    for name in ("key", "signal", "estimate", "95 % interval", "from"):
        table.add_column(name, no_wrap=name in ("key", "estimate"), overflow="fold")
    for item in gap_fit.estimates:
        low, value, high = (f"{end:.3g}" for end in item.estimate)
        table.add_row(item.key, item.signal, f"{value} {item.unit}", f"{low} to {high}", item.by)
    if gap_fit.estimates:
        print_table(table)
    print_text(*summary_lines(gap_fit), *gap_fit.notes)
    print_text("not identified:", *(f"- {sentence}" for sentence in gap_fit.unidentified))
    if out is not None:
        print_text(f"wrote {out}")
