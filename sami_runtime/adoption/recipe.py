"""The recipe of an adopted policy: what its inputs and outputs mean, and how its framework computed them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from sami_runtime.errors import ContractError
from sami_runtime.files import faults_of, printable
from sami_runtime.model.contract import ADOPTED
from sami_runtime.signals import LARGEST, Count, Entry, Float32, High, Low, Name, Positive, Text

if TYPE_CHECKING:
    from sami_runtime.model.artifact import Artifact

LAST_ACTION = "last_action"
FLAG = "begun"
"""State that the recipe adds: 0 at the first step of an episode, then 1."""
DEEPEST = 20
"""Deepest nesting of tables; a recipe has 3 levels."""

Numbers = Float32 | Annotated[tuple[Float32, ...], Field(min_length=1)]
"""One number for all elements, or one for each."""
Bound = Annotated[Positive, Field(le=LARGEST)]
"""A positive number within the range of float32."""
Elements = Annotated[tuple[Text, ...], Field(min_length=1)]


class History(Entry):
    """Past values that the network reads with the current one. No field has a default, because frameworks differ."""

    steps: Annotated[int, Field(ge=2, le=1000)]
    """Number of values, including the current one."""
    first: Literal["oldest", "newest"]
    """Which value comes first."""
    start: Literal["repeat", "zero"]
    """The past values at the beginning of an episode: copies of the first value, or zeros."""


class InputTerm(Entry):
    """A part of what the network reads: the columns `[start, stop)` of one of its inputs."""

    slice: tuple[int, int]
    """First column, and the column after the last; if the term has a `history`, of all its values together."""
    scale: Numbers
    history: History | None = None


class SignalTerm(InputTerm):
    """A signal of the robot, which the network reads as `clip(value - offset) * scale`."""

    name: Name
    unit: Text
    elements: Elements
    offset: Numbers = 0.0
    """The number that is subtracted; for joint angles, the default pose."""
    clip: tuple[Float32, Float32] | None = None
    """Lowest and highest `value - offset`."""
    frame: str = ""
    meaning: str = ""
    low: Low | None = None
    high: High | None = None
    command: bool = False
    """Whether it is a command of a person or a script, such as a velocity, and not measured by a sensor."""
    input: str = ""
    """The network's input, if it is not the recipe's `input`."""


class LastAction(InputTerm):
    """The network's last action, which it reads as `action * scale`; 0 at the beginning of an episode."""

    kind: Literal["raw", "applied"]
    """The network's output, or the action that was executed, converted back to the network's numbers."""
    scale: Numbers = 1.0


class ActionTerm(Entry):
    """How the network's output becomes the action: `default + scale * clip(output)`."""

    name: Name
    unit: Text
    elements: Elements
    meaning: Text
    scale: Numbers
    default: Numbers
    """The action at an output of 0; for joint targets, the default pose."""
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
    """The description of an exported policy by a person or a framework's files: the content of `--contract my.toml`."""

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
    """Largest absolute number that the network reads, after scaling."""
    history: History | None = None
    """Past frames, if the whole of `input` is stacked; slices then refer to one frame."""
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
        for kind, entries in (
            ("signal name", names),
            ("state name", [FLAG, *(pair.name for pair in self.state)]),
            ("input", [*self.inputs, *(pair.input for pair in self.state)]),
            ("output", [self.output, *(pair.output for pair in self.state)]),
        ):
            if twice := sorted({name for name in entries if entries.count(name) > 1}):
                raise ValueError(f"{kind} used twice: {', '.join(twice)}")
        return self

    @property
    def inputs(self) -> dict[str, list[tuple[str, InputTerm]]]:
        """The network's inputs except its states: for each, its terms with their names, in the order of the slices."""
        terms: dict[str, list[tuple[str, InputTerm]]] = {}
        for signal in self.signals:
            terms.setdefault(signal.input or self.input, []).append((signal.name, signal))
        if self.last_action:
            terms.setdefault(self.input, []).append((LAST_ACTION, self.last_action))
        return {name: sorted(parts, key=lambda part: part[1].slice) for name, parts in terms.items()}

    @classmethod
    def parse(cls, document: Mapping[str, Any], source: str) -> Recipe:
        """Read a recipe from a table, as TOML is parsed; messages name its `source`.

        Raises:
            ContractError: A key is unknown, missing or wrong.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            advice = "Correct --contract; `sami adopt POLICY --draft my.toml` writes one to complete."
            faults = printable(faults_of(error, document, cls))
            raise ContractError(f"the recipe of {source}: {faults}. {advice}") from None

    @classmethod
    def of(cls, artifact: Artifact) -> Recipe:
        """Return the recipe of an adopted file; ContractError if it was not adopted."""
        stored = artifact.contract.training.get(ADOPTED)
        if not isinstance(stored, dict) or not isinstance(stored.get("recipe"), dict):
            raise ContractError(
                f"{artifact.path} has no recipe, because `sami adopt` did not write it. Give one that it "
                "wrote, or what another framework exported."
            )
        return cls.parse(stored["recipe"], str(artifact.path))


_MOVING = re.compile(
    r"name|rate_hz|input|output|clip|history\..*|signals|signals\..*\.(elements|unit|slice|scale|offset|clip|input|history\..*)"
    r"|last_action\..*|action\.(elements|unit|meaning|scale|default|clip)|state\..*"
)


def moves_robot(field: str) -> bool:
    """Return whether a wrong value of a field, such as `"action.scale"`, makes a robot move otherwise than trained."""
    return field != "name" and _MOVING.fullmatch(field) is not None


def row(value: Numbers, size: int) -> NDArray[np.float32]:
    """Return an array (size,) with a number for each element."""
    return np.full(size, value, np.float32)


def tables_in(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the tables in a list of tables by their names; an empty dictionary for any other value."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in value):
        return {}
    return {str(entry.get("name", f"number {at}")): entry for at, entry in enumerate(value, 1)}


def fields_of(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield a table's leaves, such as `("signals.gravity.scale", 1.0)`; entries of a list go by their names.

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
