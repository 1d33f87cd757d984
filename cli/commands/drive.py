"""`sami drive`: drive the robot that a file describes, episode by episode; or check everything before it moves."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..options import JSON, keys_option, run_values
from ..output import print_text

if TYPE_CHECKING:
    from sami_runtime.robots.robot_file import RobotFile
    from sami_runtime.run import Run
    from sami_runtime.safety.watchdog import Watchdog
    from sami_runtime.session.session import Session


def drive(
    robot: Annotated[
        Path, typer.Argument(metavar="ROBOT", help="File that names the robot and its policy, NAME.toml or NAME.json.")
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Do everything but move: load, connect, read, judge. Exits with 4 if it fails."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Reset, read and infer, and write no action.")] = False,
    excite: Annotated[
        bool,
        typer.Option("--excite", help="A scripted excitation instead of the policy, for `sami fit-gap`, `fit-robot`."),
    ] = False,
    record: Annotated[
        Path | None, typer.Option(help="Record every tick to NAME.mcap, instead of the file's record.")
    ] = None,
    override: Annotated[
        list[str] | None,
        keys_option(
            "Any other key, instead of the file's: model=NEW.onnx, episodes=5, steps=50, "
            "keys=false (a person's keys), pause_s=5, shadow=SECOND.onnx, ...; docs/reference/robot-file.md lists all."
        ),
    ] = None,
    browse: Annotated[bool, typer.Option("--live", help="Watch it in a browser of this machine.")] = False,
) -> None:
    """Drive a robot with a policy: one file names adapter, model, limits, watchdog and recording.

    Paths in the file are relative to its folder, and its modules may lie there. An option overrides the file.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import import_from_folder_of
    from sami_runtime.robots.robot_file import RobotFile

    from .. import target
    from ..episode_loop import Plan, run_episodes
    from ..model_file import named_file

    if check and (dry_run or excite or browse):
        option = "--dry-run" if dry_run else "--excite" if excite else "--live"
        raise SamiError(f"--check reads once and begins no episode, so {option} has nothing to do. Leave out one.")
    changes = run_values(override) | ({} if record is None else {"record": str(record)})

    def load() -> RobotFile:
        import_from_folder_of(robot)
        file = RobotFile.load(robot)
        values = {name: getattr(file, name) for name in file.model_fields_set}
        return RobotFile.of(values | changes, "--set") if changes else file

    if check:
        _check_all(robot, load)
        return
    file = load()
    world = target.robot(file.adapter, file.settings)
    model = named_file(file.model)
    run_episodes(Plan(world, model, file, dry_run=dry_run, excite=excite, live=browse))


class NotJudged(Exception):  # noqa: N818 - not an error: the check neither passed nor failed
    """A check would need to move the robot."""


class RobotCheck(NamedTuple):
    """Result of one check."""

    name: str
    state: str
    """`ok`, `warn` for a missing protection, `WRONG`, or `--` for a check that could not be made."""
    note: str
    """The fault, or a remark."""


def _check_all(path: Path, load: Callable[[], RobotFile]) -> None:
    """Make all checks of the robot file that `load` reads, print a line for each, and exit with 4 if one fails."""
    from sami_runtime.errors import CheckFailed, SafetyWarning, SamiError, SignalExit
    from sami_runtime.factories import cause_of

    checks: list[RobotCheck] = []

    def judge(name: str, check: Callable[[], Any]) -> Any:
        """Make a check, print its line, and return its result; None if it failed."""
        result: Any = None
        state, note = "ok", ""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", SafetyWarning)
                result, note = check()
            if missing := [str(warning.message) for warning in caught if issubclass(warning.category, SafetyWarning)]:
                state, note = "warn", " ".join(missing)
        except NotJudged as reason:
            state, note = "--", str(reason)
        except SignalExit:
            raise
        except SamiError as error:
            state, note = "WRONG", str(error)
        except (Exception, SystemExit) as error:  # a driver that calls sys.exit() is a fault, too
            state, note = "WRONG", cause_of(error)
        checks.append(RobotCheck(name, state, note))
        if not JSON.get():
            print_text(f"{state:<7}{name}{note and ': '}{note}")
        return result

    _judge_all(load, judge)
    wrong = sum(check.state == "WRONG" for check in checks)
    if JSON.get():
        rows = [check._asdict() for check in checks]
        print(json.dumps({"robot": str(path), "wrong": wrong, "checks": rows}))
    else:
        unjudged = sum(check.state == "--" for check in checks)
        more = f", {unjudged} could not be judged" if unjudged else ""
        print_text(f"{path}: {wrong} of {len(checks)} checks failed{more}; no action was written")
    if wrong:
        raise typer.Exit(CheckFailed.exit_code)


def _judge_all(load: Callable[[], RobotFile], judge: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Make every check whose prerequisites passed."""
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.loop.stopping import fatal_signals_raise

    from .. import target

    file: RobotFile | None = judge("file", lambda: (load(), ""))
    if file is None:
        return
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())
        session: Session | None = judge("model", lambda: _model(file))
        judge("recording", lambda: _recording(file))
        judge("evidence", lambda: _evidence(file))
        if session is None:
            return
        contract, clock = session.contract, MonotonicClock()
        fitting = judge("limits", lambda: _limits(file, session))
        judge("host", lambda: _host(file, closing))
        dog: Watchdog | None = judge("watchdog", lambda: _watchdog(file, session, closing))
        world = target.robot(file.adapter, file.settings)
        adapter: Any = judge("adapter", lambda: (world.make(clock, contract), f"{file.adapter} made it"))
        if adapter is None:
            return
        closing.callback(lambda: judge("close", lambda: (adapter.close(), "")))
        run: Run | None = judge("fit", lambda: _fit(file, session, adapter, clock, dog)) if fitting else None
        if run is not None and file.handover is not None:
            judge("handover", lambda: (None, str(file.handover)))
        if run is not None:
            judge("observation", lambda: _observation(run, clock))
        if dog is not None:
            judge("watchdog again", lambda: _watched(dog))


def _model(file: RobotFile) -> tuple[Session, str]:
    """Return the session of the admitted model, and check the shadow model."""
    from ..episode_loop import admission_of
    from ..model_file import named_file

    path = named_file(file.model)
    admission = admission_of(file, rehearsed=True)
    session = admission.load(path, file.provider)
    digest = admission.require_expected(path, path.read_bytes())
    if file.shadow is not None:
        admission.without_hash.load(named_file(file.shadow), file.provider)
    pinned = "as expected" if file.expect_sha256 else "of any hash: expect_sha256 is not set"
    return session, f"{session.contract.name}, SHA-256 {digest}, {pinned}"


def _recording(file: RobotFile) -> tuple[None, str]:
    """Check that a recording could start, without starting one."""
    from sami_runtime.errors import RecordingError
    from sami_runtime.recording.mcap_file import mcap_parts

    path = file.recording()
    if path is None:
        return None, "none (record)"
    if path.suffix != ".mcap":
        raise RecordingError(f"cannot record to {path}; a recording is NAME.mcap.")
    _require_room(path)
    mcap_parts()
    return None, str(path)


def _evidence(file: RobotFile) -> tuple[None, str]:
    """Check that an evidence log could start and be signed, without starting one."""
    from sami_runtime.model.signing import private_key
    from sami_runtime.robots.robot_file import dated_path

    path = dated_path(file.evidence)
    if path is None:
        return None, "none (evidence)"
    _require_room(path)
    if file.evidence_key is None:
        return None, f"{path}, unsigned"
    private_key(Path(file.evidence_key))
    return None, f"{path}, signed by {file.evidence_key}"


def _require_room(path: Path) -> None:
    """Raise RecordingError if a file exists, or its folder cannot be written to."""
    from sami_runtime.errors import RecordingError

    if path.exists():
        raise RecordingError(f"{path} exists; a recording never replaces one. Choose another, or one with {{time}}.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise RecordingError(f"cannot record to {path}: {path.parent} is no folder that may be written to. Make it.")


def _limits(file: RobotFile, session: Session) -> tuple[bool, str]:
    """Check that the limits fit the model; warn if limits or a neutral action are missing."""
    from sami_runtime.errors import SafetyWarning

    if file.limits is None or file.limits.rest is None:
        warnings.warn(
            "no limits: only the contract's bounds limit what is written. Set limits."
            if file.limits is None
            else "no neutral action: while no new action comes, the last one stays in force. Set rest in the limits.",
            SafetyWarning,
            stacklevel=2,
        )
    if file.limits is None:
        return True, ""
    file.limits.require_fit(session.contract)
    return True, ", ".join(sorted(file.limits.model_fields_set))


def _host(file: RobotFile, closing: ExitStack) -> tuple[None, str]:
    """Set the priority and lock the memory as the file asks."""
    from sami_runtime import realtime

    closing.enter_context(realtime.real_time(file.priority, file.lock_memory))
    notes = [f"priority {file.priority}"] if file.priority else []
    return None, ", ".join([*notes, *(["memory locked"] if file.lock_memory else [])])


def _watchdog(file: RobotFile, session: Session, closing: ExitStack) -> tuple[Watchdog | None, str]:
    """Start the file's watchdog and return it; warn if the file sets none."""
    from sami_runtime.errors import SafetyWarning

    from ..episode_loop import watchdog_for

    dog = watchdog_for(file)
    if dog is None:
        warnings.warn(
            "nothing stops the robot if this process hangs or is killed. Set watchdog_s.", SafetyWarning, stacklevel=2
        )
        return None, ""
    dog.require_rate(file.loop_hz or session.contract.rate_hz)
    closing.enter_context(dog)
    return dog, f"process {dog.pid} is able to stop the robot by {dog.name}"


def _fit(file: RobotFile, session: Session, adapter: Any, clock: Any, dog: Watchdog | None) -> tuple[Run, str]:
    """Return the `Run` that `sami drive` would open, as a dry run."""
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.run import Run

    from ..episode_loop import robot_options

    limits = file.limits
    if limits is not None and limits.known:
        limits = limits.model_copy(update={"known": {}})  # known values are measured after a reset, which may move
    run = Run(
        session,
        adapter,
        clock,
        limits=limits,
        gap=GapProfile.load(file.gap) if file.gap else None,
        dry_run=True,
        watchdog=dog,
        command_delay_s=file.command_delay_s,
        **robot_options(file, clock, session.contract, adapter),
    )
    off = f", but for {', '.join(file.unguarded)} (unguarded)" if file.unguarded else ""
    return run, f"signals, rates and limits; guards are on{off}"


def _observation(run: Run, clock: Any) -> tuple[None, str]:
    """Read one observation, and check it by the safety gate."""
    import numpy as np

    from sami_runtime.adapters.base import require_observation
    from sami_runtime.errors import SamiError
    from sami_runtime.signals import fill, require_finite

    try:
        observation = require_observation(run.adapter.read(), run.adapter)
    except Exception as error:  # an adapter need not return an observation before its reset
        raise NotJudged(
            f"the adapter returns none before a reset, which may move the robot ({error}); --dry-run resets it first"
        ) from error
    contract = run.session.contract
    for signal in contract.observation:
        if signal.name not in observation.values:
            raise SamiError(f"read() gave no {signal.name!r}; it gave {', '.join(observation.values) or 'nothing'}.")
        row = np.empty((1, signal.size), np.float32)
        fill(row, observation.values[signal.name], signal, "observation")
        require_finite(row, signal.name, signal.elements, "observation", "The adapter's read() returned it.")
    if fault := run.gate.fault(observation, clock.now()):
        raise SamiError(fault)
    return None, f"{len(contract.observation)} signals, which the guards accept"


def _watched(dog: Watchdog) -> tuple[None, str]:
    """Check that the watchdog is still running, and has not stopped the robot."""
    from sami_runtime.errors import SamiError

    if fault := dog.fault():
        raise SamiError(fault)
    return None, ""
