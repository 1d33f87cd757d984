"""The episodes of `sami run` and `sami drive`: everything around a run is made, and closed however it ends."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
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
    from sami_runtime.robots.evidence import EvidenceLog
    from sami_runtime.robots.kit.commands import Steering
    from sami_runtime.robots.robot_file import RobotFile, RunKeys
    from sami_runtime.run import Run
    from sami_runtime.safety.watchdog import Watchdog
    from sami_runtime.session.admission import Admission
    from sami_runtime.session.session import Session

    from .keyboard import Keyboard
    from .target import Target

PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""How long before each tick of a paced run the policy is warmed up, and the core kept awake [s]."""
EPISODES = 20
"""In a simulator, where nobody says how many; on a robot 1."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and who looks on."""

    target: Target
    model: Path
    values: RunKeys
    """Whatever else the command line or a file says of the run."""
    paced: bool = True
    """Whether the loop keeps real time."""
    dry_run: bool = False
    excite: bool = False
    """Whether small steps drive in the policy's place."""
    live: bool = False
    """Whether a browser shows it."""
    film: Path | None = None
    steering: Steering | None = None
    """What a person's keys change: the command that the robot follows."""


def admission_of(values: RunKeys, rehearsed: bool) -> Admission:
    """Return which model files are let in."""
    from sami_runtime.session.admission import Admission

    return Admission(values.expect_sha256, Path(values.trusted) if values.trusted else None, rehearsed)


def watchdog_for(robot: RobotFile) -> Watchdog | None:
    """Return the watchdog of a robot that is not running yet; None where there is none."""
    from sami_runtime.safety.watchdog import Watchdog

    stop = robot.emergency_stop or f"{robot.adapter.partition(':')[0]}:emergency_stop"
    return Watchdog(stop, robot.watchdog_s) if robot.watchdog_s is not None else None


def evidence_log(robot: RobotFile, session: Session) -> EvidenceLog:
    """Begin the evidence log of a robot's run."""
    from sami_runtime.robots.evidence import EvidenceLog
    from sami_runtime.robots.robot_file import begun_now

    artifact = session.artifact
    model = {
        "path": str(artifact.path),
        "name": session.contract.name,
        "sha256": hashlib.sha256(artifact.model_bytes).hexdigest(),
        "weights_sha256": artifact.graph_sha256,
    }
    keys = robot.model_dump(mode="json", exclude_none=True)
    return EvidenceLog(begun_now(robot.evidence) or Path(), {"model": model, "robot": keys}, robot.evidence_key)


def robot_options(robot: RobotFile, clock: Any, contract: Any, adapter: Any) -> dict[str, Any]:
    """Return what only a robot's `Run` is given."""
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
    """Print each warning of a missing protection as one line of standard error."""
    from sami_runtime.errors import SafetyWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SafetyWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, SafetyWarning):
            print_text(f"warning: {warning.message}", error=True)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


class WatchedModel:
    """Takes a model file over when it has changed on disk."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, _stamp(path)

    def take_over(self, run: Run) -> str:
        """Let a file that has changed drive from the next episode on, and return a note; nothing if it has not.

        A file that is refused, such as one that is still being written, is tried again when it has changed again.
        """
        from sami_runtime.errors import SamiError

        stamp = _stamp(self._path)
        if stamp in (None, self._seen):
            return ""
        self._seen = stamp
        try:
            swap = run.swap(self._path)
        except SamiError as error:
            return f"{self._path} has changed and is not taken; the model that drove goes on: {error}"
        return f"{self._path} has changed: the next episode is driven by weights {swap.weights_sha256[:12]}"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file, also where another one takes its name; None while there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def run_episodes(plan: Plan) -> None:
    """Run the episodes of a plan, and print each."""
    from sami_runtime import realtime
    from sami_runtime.adapters.scene import scene_of
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.live import watching
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.run import Run
    from sami_runtime.safety.watch import guards_without

    from . import episodes, keyboard
    from .film import Film
    from .model_file import named_file

    values, target, real = plan.values, plan.target, plan.target.real
    robot: Any = values if real else None  # then it is a `RobotFile`
    dog = watchdog_for(robot) if robot else None
    guards_without(robot.unguarded if robot else ())
    watched = WatchedModel(plan.model) if values.watch_model else None
    admission = admission_of(values, rehearsed=real)
    session = admission.load(plan.model, values.provider)
    contract, limits, record = session.contract, values.limits, values.recording()
    profile = GapProfile.load(values.gap) if values.gap else None
    if values.shadow_tolerance and not values.shadow:
        raise SamiError("shadow_tolerance says what is alike in a second model; name that one by shadow.")
    follower = None
    if values.shadow:
        second = admission.without_hash.load(named_file(values.shadow), values.provider)
        follower = Shadow(second, contract, values.shadow_tolerance)
    if values.priority and not plan.paced:
        raise SamiError("priority is for a loop that sleeps between its ticks; add --real-time.")
    clock = MonotonicClock(AWAKE_S) if plan.paced else ManualClock()
    keys = True if plan.steering and values.keys is None else values.keys
    uses_keys = keyboard.uses_keys(keys, plan.paced and not JSON.get())
    film = Film(plan.film, contract.rate_hz, commanded=target.tracks is not None) if plan.film else None
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also while the adapter is made and closed
        if dog is not None:
            closing.enter_context(dog)  # it can stop the robot before anything moves that
        facts: dict[str, Any] = {"env": target.name, "seed": values.seed}
        facts |= {"engine": target.engine} if target.engine else {}
        facts |= {"excited": True} if plan.excite else {}
        setup = {"simulator": not real, "dry_run": plan.dry_run, "gap": bool(values.gap)}
        feed = closing.enter_context(watching(plan.live, session, contract.name, facts | setup))
        closing.enter_context(realtime.real_time(values.priority, values.lock_memory))
        adapter: Any = target.make(clock, contract)
        closing.callback(adapter.close)
        feed.scene = scene_of(adapter)
        steering = plan.steering or getattr(adapter, "steering", None)
        person = keyboard.listen(closing, contract, limits, steering) if uses_keys else None
        pilot: Any = person
        if plan.excite:
            pilot = keyboard.excitation(person, contract, limits, real, robot.loop_hz if robot else None, values.seed)
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
        line = closing.enter_context(episodes.LiveLine(run.telemetry, status=keyboard.status_of(person)))
        if film is not None:
            closing.callback(film.save)

        def on_step(step: StepRecord, rewards: list[float]) -> None:
            feed(step)
            if log is not None:
                log(step)
            if not JSON.get():
                line(step)
            if film is not None and film.is_due(step):
                film.add(adapter.render(), step, sum(rewards))

        def ended(report: EpisodeReport) -> None:
            feed.ended(report)
            if log is not None:
                log.conclude(report)

        _drive(plan, run, person, watched, on_step, line.clear, ended)


def _drive(
    plan: Plan,
    run: Run,
    person: Keyboard | None,
    watched: WatchedModel | None,
    on_step: Callable[[StepRecord, list[float]], None],
    clear: Callable[[], None],
    ended: Callable[[EpisodeReport], None],
) -> None:
    """Run one episode after the other, print a line of each, and the summary."""
    from sami_runtime.loop.pilot import Ending
    from sami_runtime.signals import number_in

    from . import episodes, keyboard

    values, target = plan.values, plan.target
    hopeless = episodes.at_floor(run.session.contract)
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
            hopeless = episodes.at_floor(run.session.contract)

        def watch(step: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
            if (reward := number_in(step.info, "reward")) is not None:
                rewards.append(reward)
            if "skill" in step.info:
                skills[str(step.info["skill"])] += 1
            on_step(step, rewards)

        report = run.episode(values.seed + number, values.steps, watch)
        total_reward = sum(rewards) if rewards else None
        row = episodes.row_of(number, report, target, skills, total_reward, run.shadow, run.telemetry)
        clear()
        if not JSON.get():
            print_text(episodes.line(row, target, report, hopeless))
        judged, running = keyboard.between(run, report, person, pause_s, last=number + 1 == total)
        ended(judged)
        if judged is not report:
            row |= {"ended": judged.ended.value, "success": judged.success}
        if JSON.get():
            print(json.dumps(row, default=str), flush=True)
        if judged.ended is not Ending.REDO:
            rows.append(row)
            number += 1
    if target.real and not JSON.get() and (text := episodes.successes(rows)):
        print_text(text)
    if target.features and not JSON.get() and not plan.dry_run and (target.tracks is None or len(rows) > 1):
        episodes.summary(rows, target, hopeless)
