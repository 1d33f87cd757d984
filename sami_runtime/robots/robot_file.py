"""The document `robot.toml`: one robot, the model that drives it, and the settings of the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sami_runtime.errors import SamiError
from sami_runtime.files import checked_table, read_document
from sami_runtime.robots.body.settings import BodySettings
from sami_runtime.robots.handover import HandoverSettings
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Count, NotNegative, Positive

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = 1
"""Version of the document that this code reads."""
TIME = "{time}"
"""Placeholder in the name of a recording or log, replaced by the time, so that no run overwrites another's file."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


def dated_path(name: str | None, now: datetime | None = None) -> Path | None:
    """Return a path in which `now` (UTC; the present if None) replaces `{time}`; None if there is no name."""
    moment = now or datetime.now(timezone.utc)
    return Path(name.replace(TIME, moment.strftime("%Y%m%dT%H%M%SZ"))) if name else None


class RunKeys(BaseModel):
    """Settings of any run, on a robot or in a simulator. A key that is left out is None or its default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    expect_sha256: Sha256 | None = None
    """SHA-256 of the model file, as sha256sum prints it; another file is refused."""
    trusted: str | None = None
    """File of public keys: a model that none of them signed is refused."""
    provider: str = "cpu"
    """What runs the ONNX graph: cpu, cuda, ..."""
    limits: Limits | None = None
    """Limits of the safety gate: a table, or the path of a file."""
    gap: str | None = None
    """Sim-to-real profile: a file, or `modest`."""
    command_delay_s: NotNegative | None = None
    """How long an action takes from its write to its effect [s]; the adapter's own if left out."""
    record: str | None = None
    """Recording of every tick, NAME.mcap; `{time}` in the name becomes the time at which it begins."""
    shadow: str | None = None
    """A second model, which runs in shadow: its actions are compared and never executed."""
    shadow_tolerance: NotNegative = 0.0
    """Largest difference between the actions of the two models that counts as equal."""
    watch_model: bool = False
    """Whether to load a model file that changed on disk, for the next episode."""
    priority: Annotated[int, Field(ge=1, le=99)] | None = None
    """Real-time priority of the loop (SCHED_FIFO)."""
    lock_memory: bool = False
    """Whether all memory is kept from being swapped out."""
    episodes: Count | None = None
    """Number of episodes; if left out, 1 on a robot and 20 in a simulator."""
    steps: Count | None = None
    """Most steps of an episode; the contract's if left out."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the first episode; it increases by 1 for each further episode."""
    keys: bool | None = None
    """Whether a person's hotkeys are read; if left out, only at a terminal."""
    pause_s: NotNegative | None = None
    """Pause between two episodes [s]; if left out, until Enter on a robot with hotkeys, else 0."""

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> Self:
        """Return checked values; messages say `where` they are written, such as the path of a file.

        Raises:
            SamiError: A value is invalid, or a key is missing or does not exist.
        """
        return checked_table(cls, values, where, "docs/reference/robot-file.md lists the keys")

    def recording(self, now: datetime | None = None) -> Path | None:
        """Return the path of a recording that begins now; None if nothing is recorded."""
        return dated_path(self.record, now)


class SimulatorKeys(RunKeys):
    """Settings of a run in a simulator."""

    dry_run: bool = False
    """Whether to only read and infer, without writing actions."""
    excite: bool = False
    """Whether small test motions replace the policy's actions, for `sami fit-gap`."""


class RobotFile(RunKeys):
    """One robot and the model that drives it, as read by `sami drive`.

    Paths in the file are relative to its folder, which may also contain the modules that it names.
    """

    version: Literal[1]
    """Of this document."""
    model: str
    """Model file, or the name of a shipped model."""
    adapter: str
    """MODULE:FACTORY of the robot's adapter."""
    settings: dict[str, Any] | None = None
    """The argument `config` of the adapter's FACTORY: a table, or the path of a file."""
    watchdog_s: Annotated[float, Field(gt=0, le=10)] | None = None
    """Silence of the loop after which another process stops the robot [s]."""
    emergency_stop: str | None = None
    """MODULE:FACTORY of the watchdog's stop function; `emergency_stop` of the adapter's module if left out."""
    loop_hz: Positive | None = None
    """Writes per second, a multiple of the policy's rate; the policy's rate if left out."""
    slower: Count = 1
    """Time scaling N: the policy acts in one of N of its periods, for a robot that is N times as slow."""
    fallback: str | None = None
    """MODULE:FACTORY of the controller that acts once the policy was held for too long."""
    body: BodySettings | None = None
    """Limits of the body: a table, or the path of a file."""
    handover: HandoverSettings | None = None
    """Stages that move the robot to where the policy starts, and away afterwards."""
    evidence: str | None = None
    """Evidence log of who drove and of every intervention, NAME.jsonl; `{time}` in the name as in `record`."""
    evidence_key: str | None = None
    """Private key, NAME.key, that signs the log when the run ends."""
    unguarded: list[str] = []
    """Guards of a robot's observations that are turned off: ranges, ood, frozen."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file, NAME.toml or NAME.json, and the files of limits and settings that it names.

        Raises:
            SamiError: A file cannot be read or has another version, or as in `of`.
        """
        path = Path(path)
        document = read_document(path, "robot settings")
        if type(document.get("version")) is not int or document["version"] != VERSION:
            problem = f"has version {document['version']!r}" if "version" in document else "has no version"
            raise SamiError(f"{path} {problem}; this sami reads version {VERSION}. Begin it with: version = {VERSION}")
        values = {key: _resolved(path.parent, key, value) for key, value in document.items()}
        if isinstance(limits := values.get("limits"), str):
            values["limits"] = Limits.load(limits)
        elif isinstance(limits, dict):
            values["limits"] = Limits.of(limits, f"{path}, table limits")
        if isinstance(body := values.get("body"), str):
            values["body"] = BodySettings.load(body)
        elif isinstance(body, dict):
            values["body"] = BodySettings.of(body, f"{path}, table body", path.parent)
        if isinstance(handover := values.get("handover"), dict):
            values["handover"] = HandoverSettings.of(handover, f"{path}, table handover")
        if isinstance(settings := values.get("settings"), str):
            values["settings"] = read_document(Path(settings), "settings")
        return cls.of(values, str(path))

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> Self:
        """Return checked values; see `RunKeys.of`."""
        robot = super().of(values, where)
        if robot.emergency_stop is not None and robot.watchdog_s is None:
            raise SamiError(
                f"{where}: emergency_stop is {robot.emergency_stop!r}, and no watchdog would call it. Set watchdog_s, "
                "the seconds of silence after which it does, such as watchdog_s = 0.12, or leave emergency_stop out."
            )
        if robot.evidence_key is not None and robot.evidence is None:
            raise SamiError(f"{where}: evidence_key is set, and there is no log to sign. Set evidence, NAME.jsonl.")
        return robot


PATHS = ("trusted", "limits", "record", "settings", "body", "evidence", "evidence_key")
"""Keys whose text is a path."""
NAMES_OR_PATHS = ("model", "shadow", "gap")
"""Keys whose text is a path, or the name of something that is built in: a bare word without a suffix."""


def _resolved(folder: Path, key: str, value: Any) -> Any:
    """Return the value of a key, with a path joined to the folder of its file."""
    if not isinstance(value, str):
        return value
    path = folder / value
    is_name = Path(value).name == value and not Path(value).suffix and not path.exists()
    if key in PATHS or (key in NAMES_OR_PATHS and not is_name):
        return str(path)
    return value
