"""The episodes of `sami run` and `sami drive`: everything around a run is made, and closed however it ends."""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.loop.run_episode import EpisodeReport
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.robots.robot_file import RobotFile, RunKeys
    from sami_runtime.run import Run
    from sami_runtime.safety.watchdog.watchdog import Watchdog
    from sami_runtime.session.admission import Admission

    from .keyboard import Keyboard
    from .target import Target
    from .watched_model import WatchedModel

PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""How long before each tick of a paced run the policy is warmed up, and the core kept awake [s]."""
EPISODES = 20
"""In a simulator, where nobody says how many; on a robot 1."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and who looks on."""

    target: Target
    """Simulator or robot."""
    model: Path
    """The model file."""
    values: RunKeys
    """Whatever else the command line or a file says of the run."""
    paced: bool = True
    """Whether the loop keeps real time."""
    dry_run: bool = False
    """Whether nothing is written."""
    excite: bool = False
    """Whether small steps drive in the policy's place."""
    live: bool = False
    """Whether a browser shows it."""
    json: bool = False
    """Whether one JSON object a line is printed."""
    film: Path | None = None
    """Where a film goes."""
    notice: str = ""
    """Printed as a warning when the run begins."""


def admission_of(values: RunKeys, rehearsed: bool) -> Admission:
    """Return which model files are let in.

    Raises:
        SamiError: The expected SHA-256 is none.
    """
    from sami_runtime.session.admission import Admission

    return Admission(values.expect_sha256, Path(values.trusted) if values.trusted else None, rehearsed)


def watchdog_for(robot: RobotFile | None) -> Watchdog | None:
    """Return the watchdog of a robot that is not running yet; None where there is none."""
    from .watchdog_option import watchdog_of

    return watchdog_of(robot.adapter, robot.watchdog_s, robot.emergency_stop) if robot else None


def robot_of(values: RunKeys) -> RobotFile | None:
    """Return the values as those of a robot; None in a simulator."""
    from sami_runtime.robots.robot_file import RobotFile

    return values if isinstance(values, RobotFile) else None


def robot_options(robot: RobotFile | None, clock: Any, contract: Any) -> dict[str, Any]:
    """Return what only a robot's `Run` is given; nothing in a simulator.

    Raises:
        SamiError, UnknownName: The fallback cannot be made, or the rate is no multiple of the policy's.
    """
    from sami_runtime.loop.settings import LoopSettings

    from .load_adapter import load_fallback

    if robot is None:
        return {}
    LoopSettings(loop_hz=robot.loop_hz).substeps(contract.rate_hz)  # refused here, before a recording begins
    fallback = load_fallback(robot.fallback, clock, contract, robot.settings) if robot.fallback else None
    options = {"loop_hz": robot.loop_hz, "slower": robot.slower, "fallback": fallback}
    return {**options, "unguarded": robot.unguarded}


def run_episodes(plan: Plan) -> None:
    """Run the episodes of a plan, and print each.

    Raises:
        SamiError: Something does not fit; then nothing was moved. Or the loop was stopped.
    """
    from sami_runtime import realtime
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.recording.view.feed import watching
    from sami_runtime.run import Run
    from sami_runtime.safety.watch import guards_without

    from . import attend, episodes
    from .film import Film
    from .live import LiveLine
    from .model_file import named_file
    from .watchdog_option import safety_warnings_shown
    from .watched_model import WatchedModel

    values, target, real = plan.values, plan.target, plan.target.real
    robot = robot_of(values)
    dog = watchdog_for(robot)
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
        second = admission.another.load(named_file(values.shadow), values.provider)
        follower = Shadow(second, contract, values.shadow_tolerance)
    if values.priority and not plan.paced:
        raise SamiError("--priority is for a loop that sleeps between its ticks; add --real-time.")
    clock = MonotonicClock(AWAKE_S) if plan.paced else ManualClock()
    listens = attend.listens(values.keys, plan.paced and not plan.json)
    film = Film(plan.film, contract.rate_hz) if plan.film else None
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also while the adapter is made and closed
        if dog is not None:
            closing.enter_context(dog)  # it can stop the robot before anything moves that
        facts: dict[str, Any] = {"env": target.name, "seed": values.seed}
        facts |= {"engine": target.engine} if target.engine else {}
        facts |= {"excited": True} if plan.excite else {}
        made = {"simulator": not real, "dry_run": plan.dry_run, "gap": bool(values.gap)}
        feed = closing.enter_context(watching(plan.live, session, contract.name, facts | made))
        closing.enter_context(realtime.real_time(values.priority, values.lock_memory))
        adapter: Any = target.make(clock, contract)
        closing.callback(adapter.close)
        person = attend.keyboard(closing, contract, limits) if listens else None
        pilot: Any = person
        if plan.excite:
            pilot = attend.excitation(person, contract, limits, real, robot.loop_hz if robot else None, values.seed)
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
                **robot_options(robot, clock, contract),
            )
        if plan.notice:
            print(f"warning: {plan.notice}", file=sys.stderr)
        if not plan.json:
            closing.callback(lambda: print(episodes.ending(run, film, record), end=""))
        closing.enter_context(run)
        line = closing.enter_context(LiveLine(run.telemetry, status=attend.status_of(person)))
        if film is not None:
            closing.callback(film.save)

        def on_step(step: StepRecord, rewards: list[float]) -> None:
            feed(step)
            if not plan.json:
                line(step)
            if film is not None and film.wants(step):
                film.add(adapter.render(), step, sum(rewards))

        _drive(plan, run, person, watched, on_step, line.clear, feed.ended)


def _drive(
    plan: Plan,
    run: Run,
    person: Keyboard | None,
    watched: WatchedModel | None,
    on_step: Callable[[StepRecord, list[float]], None],
    clear: Callable[[], None],
    ended: Callable[[EpisodeReport], None],
) -> None:
    """Run one episode after the other, print a line of each, and the summary.

    Args:
        plan: What is to be run.
        run: The open run.
        person: Whose keys count; None where nobody attends.
        watched: The model file, if it may be replaced while it drives.
        on_step: Called with each tick and the rewards of its episode so far.
        clear: Takes away what stands on the terminal while an episode runs.
        ended: Called with the report of each episode.
    """
    from sami_runtime.loop.pilot import Ending
    from sami_runtime.signals import number_in

    from . import attend, episodes

    values, target = plan.values, plan.target
    hopeless = episodes.at_floor(run.session.contract)
    if not plan.json:
        print(episodes.header(target, run.telemetry, hopeless))
    rows = list[episodes.Row]()
    number, wanted, running = 0, values.episodes or (1 if target.real else EPISODES), True
    pause_s = 0.0 if values.pause_s is None and not (person and target.real) else values.pause_s
    while running and number < wanted:
        skills: Counter[str] = Counter()
        rewards: list[float] = []
        if watched and (note := watched.take_over(run)):
            print(note, file=sys.stderr)
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
        if not plan.json:
            print(episodes.line(row, target, report, hopeless), flush=True)
        judged, running = attend.between(run, report, person, pause_s, last=number + 1 == wanted)
        ended(judged)
        if judged is not report:
            row |= {"ended": judged.ended.value, "success": judged.success}
        if plan.json:
            print(json_module.dumps(row, default=str), flush=True)
        if judged.ended is not Ending.REDO:
            rows.append(row)
            number += 1
    if target.real and not plan.json and (text := episodes.successes(rows)):
        print(text)
    if target.features and not plan.json and not plan.dry_run:
        episodes.summary(rows, target, hopeless)
