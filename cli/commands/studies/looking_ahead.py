"""The part of `sami export` that puts a forward model in front of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from sami_runtime.model.artifact import Artifact
    from sami_runtime.model.contract import Contract
    from sami_train.envs.spec import EnvironmentSpec


def look_ahead(
    artifact: Artifact,
    out: Path,
    steps: int | None,
    spec: EnvironmentSpec | None,
    episodes: int,
    recordings: Sequence[Path],
    command_delay_s: float | None,
    bar: Progress,
) -> Artifact:
    """Fit a forward model, and return the model file with it in front of the policy; nothing is written.

    Args:
        artifact: the file whose policy it is; it may not be written yet.
        out: where the new file will be.
        steps: how many periods it looks ahead; as many as `artifact` does if None.
        spec: what it is rolled out in; None where it learns from recordings.
        episodes: that are rolled out.
        recordings: that it learns from instead.
        command_delay_s: of the robot that they are of; see `recorded_stretches`.
        bar: shows the progress.

    Raises:
        SamiError: nobody says how far it looks, or there is too little to learn from.
    """
    import onnx

    from sami_runtime.errors import SamiError
    from sami_train.studies.lookahead.fit import UPDATES, fit
    from sami_train.studies.lookahead.forward_model import forward_of, require_steps, with_lookahead
    from sami_train.studies.lookahead.stretches import recorded_stretches, roll_out

    contract, start = artifact.contract, None
    if steps is None:
        if contract.lookahead is None:
            raise SamiError(
                f"{artifact.path} does not look ahead yet; say how many periods it is to, e.g. --lookahead 3."
            )
        steps = contract.lookahead.steps
    require_steps(steps)
    if spec is None:
        stretches = recorded_stretches(recordings, contract, command_delay_s)
        start = forward_of(onnx.load_from_string(artifact.model_bytes))  # of another robot, or a simulator
        fitted = f"{len(stretches)} stretches of {', '.join(path.name for path in recordings)}"
    else:
        rolled = bar.add_task("rolling out", total=episodes)
        stretches = roll_out(artifact, spec, episodes, on_round=lambda done: bar.advance(rolled, done))
        fitted = f"{episodes} episodes in {spec.name}, in every second one with random actions half of the time"
    fitting = bar.add_task("fitting a forward model", total=UPDATES)
    forward = fit(
        stretches, contract.observation, steps, on_update=lambda done: bar.advance(fitting, done), start=start
    )
    return with_lookahead(artifact, out, steps, forward, fitted)


def lookahead_lines(contract: Contract) -> list[str]:
    """Return what a file says of its forward model, a line a signal; nothing where it has none."""
    ahead = contract.lookahead
    if ahead is None:
        return []
    lines = [ahead.summary(), "off on what was held out, and if taken for the present, by period:"]
    rows = ahead.rows(contract.observation)
    width = max(len(name) for name, *_ in rows)
    return lines + [f"  {name:<{width}}  {', '.join(cells)} {unit}" for name, unit, cells in rows]
