"""The recipe of an adopted policy: what its numbers are, and what its framework computed around the network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from sami_runtime.errors import ContractError, UnknownName
from sami_runtime.files import faults_of, printable
from sami_runtime.model.contract import ADOPTED
from sami_runtime.signals import LARGEST, Count, Entry, Float32, High, Low, Name, Positive, Text

if TYPE_CHECKING:
    from sami_runtime.model.artifact import Artifact

LAST_ACTION = "last_action"
FLAG = "begun"
"""State that the recipe adds: 0 at the first step of an episode, then 1."""
DEEPEST = 20
"""Most tables around a field; a recipe has 3."""

Numbers = Float32 | Annotated[tuple[Float32, ...], Field(min_length=1)]
"""One number for all elements, or one for each."""
Bound = Annotated[Positive, Field(le=LARGEST)]
"""What a float32 holds."""
Elements = Annotated[tuple[Text, ...], Field(min_length=1)]


class History(Entry):
    """Past values that the network reads with the present one. Frameworks differ in each field: none has a default."""

    steps: Annotated[int, Field(ge=2, le=1000)]
    """How many values there are, with the present one."""
    first: Literal["oldest", "newest"]
    """Which of them comes first."""
    start: Literal["repeat", "zero"]
    """What stands for the past when an episode begins: the first value, or zeros."""


class InputTerm(Entry):
    """Something that the network reads: `[start, stop)` of one of its inputs."""

    slice: tuple[int, int]
    """First index, and the one behind the last; with `history` of its own, of all its values."""
    scale: Numbers
    history: History | None = None


class SignalTerm(InputTerm):
    """A signal of the robot, which the network reads as `clip(value - offset) * scale`."""

    name: Name
    unit: Text
    elements: Elements
    offset: Numbers = 0.0
    """What is subtracted; for joint angles the default pose."""
    clip: tuple[Float32, Float32] | None = None
    """Lowest and highest `value - offset`."""
    frame: str = ""
    meaning: str = ""
    low: Low | None = None
    high: High | None = None
    command: bool = False
    """Whether a person or a script gives it, such as a velocity, and no sensor."""
    input: str = ""
    """The network's input, where it is not the recipe's `input`."""


class LastAction(InputTerm):
    """The network's last action, which it reads as `action * scale`; 0 when an episode begins."""

    kind: Literal["raw", "applied"]
    """The network's output, or the action that was executed, converted back to the network's numbers."""
    scale: Numbers = 1.0


class ActionTerm(Entry):
    """What the network's output does: `default + scale * clip(output)`."""

    name: Name
    unit: Text
    elements: Elements
    meaning: Text
    scale: Numbers
    default: Numbers
    """What an output of 0 means; for joint targets the default pose."""
    clip: Bound | None = None
    """Largest absolute output."""
    low: Low | None = None
    high: High | None = None
    kp: Numbers | None = None
    """Stiffness of the joints' controllers, for the robot's driver and for people."""
    kd: Numbers | None = None
    effort: Numbers | None = None
    """Largest torque or force of each joint."""


class StatePair(Entry):
    """A recurrent tensor: an output that is the input of the next step."""

    name: Name
    input: Text
    output: Text
    initial: Float32 = 0.0


class Recipe(Entry):
    """What a person, or a framework's files, say about an exported policy: the content of `--contract my.toml`."""

    name: Text
    rate_hz: Positive
    """How often the policy acts [1/s]."""
    decimation: Count | None = None
    """Steps of the training's simulator for each action."""
    episode_steps: Count = 1000
    input: Text
    """The network's input for all signals that name no other."""
    output: Text
    clip: Bound | None = None
    """Largest absolute number that the network reads, after scale."""
    history: History | None = None
    """Past frames, where the whole of `input` is stacked; slices are then those of one frame."""
    signals: Annotated[tuple[SignalTerm, ...], Field(min_length=1, max_length=1000)]
    last_action: LastAction | None = None
    action: ActionTerm
    state: tuple[StatePair, ...] = ()

    @model_validator(mode="after")
    def _sizes_and_names(self) -> Recipe:
        sized: list[tuple[str, SignalTerm | LastAction | ActionTerm, int]] = [
            (f"signals.{signal.name}", signal, len(signal.elements)) for signal in self.signals
        ]
        sized.append(("action", self.action, len(self.action.elements)))
        if self.last_action:
            sized.append((LAST_ACTION, self.last_action, len(self.action.elements)))
        for where, term, size in sized:
            for key in ("offset", "scale", "default", "low", "high", "kp", "kd", "effort"):
                value = getattr(term, key, None)
                if isinstance(value, tuple) and len(value) != size:
                    raise ValueError(f"{where}.{key} has {len(value)} numbers for {size} elements")
            if not np.all(term.scale):
                raise ValueError(f"{where}.scale is 0, which would hide the number")
            if isinstance(term, InputTerm):
                start, stop = term.slice
                steps = term.history.steps if term.history else 1
                if start < 0 or stop - start != size * steps:
                    past = f" at {steps} steps" if steps > 1 else ""
                    raise ValueError(f"{where}.slice is [{start}, {stop}] for {size} elements{past}")
                if self.history and term.history and getattr(term, "input", "") in ("", self.input):
                    raise ValueError(f"{where}.history is in the way of the history of the whole input; give one")
            if isinstance(term, SignalTerm) and term.clip and term.clip[0] >= term.clip[1]:
                raise ValueError(f"{where}.clip is {list(term.clip)}; expected [lowest, highest]")
            if (
                isinstance(term, SignalTerm)
                and (term.unit, term.elements) == (self.action.unit, self.action.elements)
                and "offset" not in term.model_fields_set
            ):
                raise ValueError(f"{where}.offset is missing: say what is subtracted, mostly the default pose, or 0.0")
        names = [signal.name for signal in self.signals]
        if LAST_ACTION in names:
            raise ValueError(f"the signal name {LAST_ACTION} is taken; the last action is a table [{LAST_ACTION}]")
        for kind, used in (
            ("signal name", names),
            ("state name", [FLAG, *(pair.name for pair in self.state)]),
            ("input", [*self.inputs, *(pair.input for pair in self.state)]),
            ("output", [self.output, *(pair.output for pair in self.state)]),
        ):
            if twice := sorted({name for name in used if used.count(name) > 1}):
                raise ValueError(f"{kind} used twice: {', '.join(twice)}")
        return self

    @property
    def inputs(self) -> dict[str, list[tuple[str, InputTerm]]]:
        """The network's inputs but its state, each with its terms by name, in the order of their slices."""
        terms: dict[str, list[tuple[str, InputTerm]]] = {}
        for signal in self.signals:
            terms.setdefault(signal.input or self.input, []).append((signal.name, signal))
        if self.last_action:
            terms.setdefault(self.input, []).append((LAST_ACTION, self.last_action))
        return {name: sorted(parts, key=lambda part: part[1].slice) for name, parts in terms.items()}

    @classmethod
    def parse(cls, document: Mapping[str, Any], source: str) -> Recipe:
        """Read a recipe from a table.

        Args:
            document: As TOML gives it.
            source: Where it came from, for messages.

        Raises:
            UnknownName: A key is unknown.
            ContractError: A field is missing or wrong.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            for fault in error.errors():
                if fault["type"] == "extra_forbidden":
                    tables = [_TABLES[str(key)] for key in fault["loc"][:-1] if key in _TABLES]
                    fields = (tables[-1] if tables else cls).model_fields
                    raise UnknownName(f"recipe key of {source}", printable(str(fault["loc"][-1])), fields) from None
            advice = "Correct --contract; `sami adopt POLICY --draft my.toml` writes one to complete."
            raise ContractError(f"the recipe of {source}: {printable(faults_of(error, document))}. {advice}") from None

    @classmethod
    def of(cls, artifact: Artifact) -> Recipe:
        """Return the recipe of an adopted file.

        Raises:
            ContractError: The file was not adopted.
        """
        stored = artifact.contract.training.get(ADOPTED)
        if not isinstance(stored, dict) or not isinstance(stored.get("recipe"), dict):
            raise ContractError(
                f"{artifact.path} has no recipe, because `sami adopt` did not write it. Give one that it "
                "wrote, or what another framework exported."
            )
        return cls.parse(stored["recipe"], str(artifact.path))


_TABLES: dict[str, type[Entry]] = {
    "signals": SignalTerm,
    LAST_ACTION: LastAction,
    "action": ActionTerm,
    "state": StatePair,
    "history": History,
}
_MOVING = re.compile(
    r"name|rate_hz|input|output|clip|history\..*|signals|signals\..*\.(elements|unit|slice|scale|offset|clip|input|history\..*)"
    r"|last_action\..*|action\.(elements|unit|meaning|scale|default|clip)|state\..*"
)


def moves_robot(field: str) -> bool:
    """Whether a wrong value of a field, such as `"action.scale"`, moves a robot in another way than in training."""
    return field != "name" and _MOVING.fullmatch(field) is not None


def row(value: Numbers, size: int) -> NDArray[np.float32]:
    """Return one number for each element, (size,)."""
    return np.full(size, value, np.float32)


def tables_in(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the tables in a list of tables by their names; nothing of any other value."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in value):
        return {}
    return {str(entry.get("name", f"number {at}")): entry for at, entry in enumerate(value, 1)}


def fields_of(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Return the leaves of a recipe's table, `("signals.gravity.scale", 1.0)`; entries of a list go by their names.

    Raises:
        ContractError: Tables are nested too deeply.
    """
    if prefix.count(".") > DEEPEST:
        raise ContractError(f"the recipe has tables in tables, more than {DEEPEST} deep. Correct the contract.")
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from fields_of(value, f"{prefix}{key}.")
        elif entries := tables_in(value):
            for name, entry in entries.items():
                yield from fields_of(entry, f"{prefix}{key}.{name}.")
        else:
            yield f"{prefix}{key}", value
