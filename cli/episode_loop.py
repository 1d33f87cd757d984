"""The episodes of `sami run` and `sami drive`: sets up a run, runs its episodes, and closes everything in any case."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import JSON
from .output import print_text

if TYPE_CHECKING:
    from sami_runtime.loop.episode import EpisodeReport
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.model.contract import Contract
    from sami_runtime.recording.live import Feed
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.robots.evidence import EvidenceLog
    from sami_runtime.robots.kit.commands import Steering
    from sami_runtime.robots.robot_file import RobotFile, RunKeys
    from sami_runtime.run import Run
    from sami_runtime.safety.watchdog import Watchdog
    from sami_runtime.session.admission import Admission
    from sami_runtime.session.session import Session

    from .episodes import LiveLine
    from .film import Film
    from .keyboard import Keyboard
    from .target import Target

PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""Time before each tick of a paced run in which the policy is warmed up, and the core kept awake [s]."""
EPISODES = 20
"""Default number of episodes in a simulator; on a robot it is 1."""


@dataclass(frozen=True)
class Plan:
    """A run: its target, its model, its keys, and how it is shown."""

    target: Target
    model: Path
    values: RunKeys
    """The other keys of the run, from the command line or the robot's file."""
    paced: bool = True
    """Whether the loop keeps real time."""
    dry_run: bool = False
    excite: bool = False
    """Whether small steps replace the policy's actions, for system identification."""
    live: bool = False
    """Whether a browser shows the run."""
    film: Path | None = None
    steering: Steering | None = None
    """The command that the robot follows, which a person changes by keys."""


def admission_of(values: RunKeys, rehearsed: bool) -> Admission:
    """Return the rules by which model files are admitted: expected hash, trusted keys, rehearsal."""
    from sami_runtime.session.admission import Admission

    return Admission(values.expect_sha256, Path(values.trusted) if values.trusted else None, rehearsed)


def watchdog_for(robot: RobotFile) -> Watchdog | None:
    """Return a robot's watchdog, not started yet; None if its file sets none."""
    from sami_runtime.safety.watchdog import Watchdog

    stop = robot.emergency_stop or f"{robot.adapter.partition(':')[0]}:emergency_stop"
    return Watchdog(stop, robot.watchdog_s) if robot.watchdog_s is not None else None


def evidence_log(robot: RobotFile, session: Session) -> EvidenceLog:
    """Start the evidence log of a robot's run."""
    from sami_runtime.robots.evidence import EvidenceLog
    from sami_runtime.robots.robot_file import dated_path

    artifact = session.artifact
    model = {
        "path": str(artifact.path),
        "name": session.contract.name,
        "sha256": hashlib.sha256(artifact.model_bytes).hexdigest(),
        "weights_sha256": artifact.graph_sha256,
    }
    keys = robot.model_dump(mode="json", exclude_none=True)
    return EvidenceLog(dated_path(robot.evidence) or Path(), {"model": model, "robot": keys}, robot.evidence_key)


def robot_options(robot: RobotFile, clock: Any, contract: Any, adapter: Any) -> dict[str, Any]:
    """Return the arguments that only a robot's `Run` gets."""
    from .target import load_fallback

    fallback = load_fallback(robot.fallback, clock, contract, robot.settings) if robot.fallback else None
    keys = ("loop_hz", "slower", "unguarded")
    options = {"fallback": fallback, **{key: getattr(robot, key) for key in keys}}
    if robot.body is not None:
        from sami_runtime.robots.body.gate import BodyGate

        options["gate"] = partial(BodyGate, settings=robot.body, slower=robot.slower)
    if robot.handover is not None:
        from sami_runtime.robots.handover import HandoverSequence

        options["sequence"] = HandoverSequence(robot.handover, adapter, contract, robot.limits, robot.body)
    return options


@contextmanager
def safety_warnings_shown() -> Iterator[None]:
    """Print each SafetyWarning of a `with` block as one line of standard error."""
    from sami_runtime.errors import SafetyWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SafetyWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, SafetyWarning):
            print_text(f"warning: {warning.message}", error=True)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def program_exits_explained() -> Iterator[None]:
    """Raise an AdapterError where a driver or an environment calls `sys.exit()` in a `with` block."""
    from sami_runtime.errors import AdapterError, SignalExit
    from sami_runtime.factories import user_line

    try:
        yield
    except SignalExit:
        raise
    except SystemExit as error:
        ending = f"sys.exit({error.code!r}) in {user_line(error) or 'a library'} ended the run"
        raise AdapterError(f"{ending}. Raise an error instead.") from error


class WatchedModel:
    """Loads a model file again when it has changed on disk."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)

    def take_over(self, run: Run) -> str:
        """Swap to the file for the next episode if it has changed, and return a note; else return an empty text.

        A rejected file, such as one that is half written, is tried again after its next change.
        """
        from sami_runtime.errors import SamiError

        stamp = _stamp(self._path)
        if stamp in (None, self._stamp):
            return ""
        self._stamp = stamp
        try:
            with safety_warnings_shown():
                swap = run.swap(self._path)
        except SamiError as error:
            return f"{self._path} has changed, but is rejected; the previous model continues: {error}"
        return f"{self._path} has changed: the next episode is driven by weights {swap.weights_sha256[:12]}"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a stamp that changes with a file, also if another file replaces it; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass(frozen=True)
class Spectators:
    """Everything that shows or stores the ticks of a run, apart from its recording."""

    line: LiveLine
    feed: Feed | None
    log: EvidenceLog | None
    film: Film | None
    adapter: Any
    """Renders the images of the film."""

    def on_step(self, step: StepRecord, rewards: list[float]) -> None:
        """Show a tick, and the rewards of its episode so far."""
        if self.feed is not None:
            self.feed(step)
        if self.log is not None:
            self.log(step)
        if not JSON.get():
            self.line(step)
        if self.film is not None and self.film.is_due(step):
            self.film.add(self.adapter.render(), step, sum(rewards))

    def on_end(self, report: EpisodeReport) -> None:
        """Show how an episode ended."""
        if self.feed is not None:
            self.feed.end_episode(report)
        if self.log is not None:
            self.log.conclude(report)


def shadow_of(values: RunKeys, admission: Admission, contract: Contract) -> Shadow | None:
    """Load the second model, which is compared with the driving one; None if there is none.

    Raises:
        SamiError: There is a tolerance and no second model, or the file is rejected, or cannot follow.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.recording.replay import Shadow

    from .model_file import named_file

    if values.shadow:
        second = admission.without_hash.load(named_file(values.shadow), values.provider)
        return Shadow(second, contract, values.shadow_tolerance)
    if values.shadow_tolerance:
        raise SamiError("shadow_tolerance is for comparison with a second model; name that model by shadow.")
    return None


def run_episodes(plan: Plan) -> None:
    """Run the episodes of a plan, and print each."""
    from sami_runtime import realtime
    from sami_runtime.adapters.scene import scene_of
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.live import watching
    from sami_runtime.run import Run
    from sami_runtime.safety.watch import guards_without

    from . import episodes, keyboard
    from .film import Film

    values, target, real = plan.values, plan.target, plan.target.real
    robot: Any = values if real else None  # then it is a `RobotFile`
    dog = watchdog_for(robot) if robot else None
    guards_without(robot.unguarded if robot else ())
    watched = WatchedModel(plan.model) if values.watch_model else None
    admission = admission_of(values, rehearsed=real)
    session = admission.load(plan.model, values.provider)
    contract, limits, record = session.contract, values.limits, values.recording()
    profile = GapProfile.load(values.gap) if values.gap else None
    follower = shadow_of(values, admission, contract)
    if values.priority and not plan.paced:
        raise SamiError("priority is for a loop that sleeps between its ticks; add --real-time.")
    clock = MonotonicClock(AWAKE_S) if plan.paced else ManualClock()
    keys = True if plan.steering and values.keys is None else values.keys
    uses_keys = keyboard.uses_keys(keys, plan.paced and not JSON.get())
    film = Film(plan.film, contract.rate_hz, commanded=target.tracks is not None) if plan.film else None
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also while the adapter is made and closed
        closing.enter_context(program_exits_explained())
        if dog is not None:
            closing.enter_context(dog)  # before anything can move the robot
        facts: dict[str, Any] = {"env": target.name, "seed": values.seed}
        facts |= {"engine": target.engine} if target.engine else {}
        facts |= {"excited": True} if plan.excite else {}
        setup = {"simulator": not real, "dry_run": plan.dry_run, "gap": bool(values.gap)}
        feed = closing.enter_context(watching(plan.live, session, contract.name, facts | setup))
        closing.enter_context(realtime.real_time(values.priority, values.lock_memory))
        adapter: Any = target.make(clock, contract)
        closing.callback(adapter.close)
        if feed is not None:
            feed.scene = scene_of(adapter)
        steering = plan.steering or getattr(adapter, "steering", None)
        person = keyboard.listen(closing, contract, limits, steering) if uses_keys else None
        pilot: Any = person
        if plan.excite:
            pilot = keyboard.excitation(person, contract, limits, real, robot, values.seed)
        options = robot_options(robot, clock, contract, adapter) if robot else {}
        options["sequence"] = sequence = None if plan.dry_run else options.get("sequence")
        with safety_warnings_shown():
            run = Run(
                session,
                adapter,
                clock,
                simulator=not real,
                limits=limits,
                gap=profile,
                dry_run=plan.dry_run,
                prewarm_s=PREWARM_S if plan.paced else 0.0,
                record=record,
                facts=facts,
                shadow=follower,
                watchdog=dog,
                command_delay_s=values.command_delay_s,
                pilot=pilot,
                admission=admission,
                **options,
            )
        if not JSON.get():
            closing.callback(lambda: print_text(*episodes.ending(run, film, record)))
        log = closing.enter_context(evidence_log(robot, session)) if robot and robot.evidence else None
        if log is not None:
            log.explanations = getattr(run.gate, "explanations", {})
            if sequence is not None:
                sequence.listen = log.hand_over
        closing.enter_context(run)
        line = episodes.LiveLine(run.telemetry, status=lambda: person.status if person else "")
        closing.callback(line.clear)
        if film is not None:
            closing.callback(film.save)

        _drive(plan, run, person, watched, Spectators(line, feed, log, film, adapter))


def _drive(plan: Plan, run: Run, person: Keyboard | None, watched: WatchedModel | None, spectators: Spectators) -> None:
    """Run the episodes one after the other; print a line for each, and the summary."""
    from sami_runtime.errors import SafetyStop
    from sami_runtime.loop.pilot import Ending
    from sami_runtime.signals import number_in

    from . import episodes, keyboard

    values, target = plan.values, plan.target
    hopeless = episodes.unsolved_tasks(run.session.contract)
    if not JSON.get():
        print_text(episodes.header(target, run.telemetry))
    rows = list[episodes.Row]()
    number, total, running = 0, values.episodes or (1 if target.real else EPISODES), True
    pause_s = 0.0 if values.pause_s is None and not (person and target.real) else values.pause_s
    while running and number < total:
        skills: Counter[str] = Counter()
        rewards: list[float] = []
        if watched and (note := watched.take_over(run)):
            print_text(note, error=True)
            hopeless = episodes.unsolved_tasks(run.session.contract)

        def watch(step: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
            if step.executed is not None and (reward := number_in(step.info, "reward")) is not None:  # else the last's
                rewards.append(reward)
            if "skill" in step.info:
                skills[str(step.info["skill"])] += 1
            spectators.on_step(step, rewards)

        try:
            report = run.episode(values.seed + number, values.steps, watch)
        except SafetyStop as stop:
            if JSON.get() and stop.report and stop.report.loop.ticks:
                row = episodes.row_of(number, stop.report, target, skills, rewards, run.shadow, run.telemetry)
                print(json.dumps({**row, "ended": "safety_stop", "reason": str(stop)}, default=str), flush=True)
            raise
        row = episodes.row_of(number, report, target, skills, rewards, run.shadow, run.telemetry)
        spectators.line.clear()
        if not JSON.get():
            print_text(episodes.line(row, target, report, hopeless))
        final_report, running = keyboard.between(run, report, person, pause_s, last=number + 1 == total)
        spectators.on_end(final_report)
        if final_report is not report:
            row |= {"ended": final_report.ended.value, "success": final_report.success}
        if JSON.get():
            print(json.dumps(row, default=str), flush=True)
        if final_report.ended is not Ending.REDO:
            rows.append(row)
            number += 1
    if target.real and not JSON.get() and (text := episodes.successes(rows)):
        print_text(text)
    if target.features and not JSON.get() and not plan.dry_run and (target.tracks is None or len(rows) > 1):
        episodes.summary(rows, target, hopeless)
