"""The contract: the JSON document in a model file that describes everything a runtime needs to run it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from pydantic import AliasChoices, Field, ValidationError, model_validator

from sami_runtime.distribution import upgrade_hint
from sami_runtime.errors import ContractError
from sami_runtime.files import faults_of, plain_strings, printable, unique
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.golden import Golden, GoldenSteps
from sami_runtime.model.lookahead import AGE, HOLDS, Lookahead
from sami_runtime.model.probe import Probe
from sami_runtime.model.recovery import Recovery
from sami_runtime.model.training_ranges import TrainingRanges
from sami_runtime.signals import Count, Entry, Float32, Name, Number, Positive, Shape, Signal, Size, Text

CONTRACT_VERSION = 1
"""The contract version that this package writes and reads."""
METADATA_KEY = "sami.contract"
"""The key of the ONNX `metadata_props` entry that holds the contract."""
HASH_KEY = "sami.contract.sha256"
"""The key of the entry that holds the SHA-256 of the contract's text."""
PREVIOUS_ACTION = "previous_action"
ACTION = "action"
CONTEXT = "context"
PRESENT = "present_"
"""Prefix of the names of extra outputs that estimate the present value of a signal; the signal's name follows."""
EXECUTED = "executed"
"""Name of the executed action in golden steps; it is no tensor of the graph."""
ADOPTED = "adopted"
"""Key of `training` under which an adopted file stores its recipe and the sources of its fields."""


class Quantity(Entry):
    """Numbers with a common unit."""

    unit: Text
    values: tuple[Number, ...] = Field(min_length=1)

    def __str__(self) -> str:
        return f"{', '.join(f'{value:g}' for value in self.values)} {self.unit}"


class DataSheet(Entry):
    """Properties of a robot that a policy relies on: frame, home pose and gains, in words and numbers."""

    OPTIONAL = ("gains",)

    frame: Text
    """Frame of positions: its origin, its axes, and the point of the robot that is measured."""
    home: Text
    """Pose in which an episode begins."""
    gains: str = ""
    """How closely the robot follows an action; empty if that is not known."""
    numbers: dict[str, Quantity] = Field(default_factory=dict)
    """The same facts as numbers, by name."""


class StateTensor(Entry):
    """A recurrent tensor, which a session passes from each step to the next without interpreting it."""

    name: Name
    shape: Shape
    """Its shape without the batch axis."""
    initial: Float32 = 0.0
    """Initial value of all its numbers when an episode begins."""


class Context(Entry):
    """The context: a vector that the encoder infers from the episode so far, and that the policy acts on."""

    size: Size

    @property
    def signal(self) -> Signal:
        """The signal of the graph's output: its elements have indices for names, and no unit."""
        unbounded, elements = (None,) * self.size, tuple(map(str, range(self.size)))
        return Signal(name=CONTEXT, size=self.size, unit="1", elements=elements, low=unbounded, high=unbounded)


class Contract(Entry):
    """The description of a model: signals, state, training and references.

    The graph's inputs and outputs are declared only here: `signal_inputs`, `age_inputs` and `feedback` are its inputs,
    `answers` and the next state are its outputs. All code that traces, runs, checks or records a graph loops over these
    tables.
    """

    OPTIONAL = ("extra_outputs", "seen", "sheet", "lookahead", "probe", "recovery")

    version: int = CONTRACT_VERSION
    name: Text
    rate_hz: Positive
    """How often the policy was trained to act [1/s]."""
    observation: tuple[Signal, ...] = Field(min_length=1)
    action: Signal
    state: tuple[StateTensor, ...] = ()
    """Empty for a memoryless policy."""
    context: Context | None = None
    """None for a memoryless policy."""
    extra_outputs: tuple[Signal, ...] = ()
    """Signals of the graph's outputs besides action and context; the outputs have the signals' names."""
    episode_steps: Count
    training: dict[str, Any]
    """How the policy was trained; information for people that does not affect actions."""
    evaluation: dict[str, Any] | None = None
    atlas: Atlas | None = None
    """In-distribution reference of the contexts. This entry and those below are None if they were not measured."""
    training_ranges: TrainingRanges | None = Field(
        default=None, validation_alias=AliasChoices("seen", "training_ranges"), serialization_alias="seen"
    )
    """Training ranges of each element: the key `seen` of the file."""
    sheet: DataSheet | None = None
    """Frame and home pose of the robot."""
    lookahead: Lookahead | None = None
    """How the graph predicts the present from late observations; None if it treats them as current."""
    probe: Probe | None = None
    """Readout: which physical features the graph estimates from a context, and how well."""
    recovery: Recovery | None = None
    """Bound on the time to adapt after a change of the dynamics."""
    golden: Golden | None = None
    weights_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the serialized graph, the bytes of the file's GraphProto."""

    @model_validator(mode="after")
    def _version_and_names(self) -> Contract:
        if self.version != CONTRACT_VERSION:
            raise ValueError(f"version is {self.version}, expected {CONTRACT_VERSION}")
        for kind, names in (
            ("observation", [signal.name for signal in self.observation]),
            ("state", [tensor.name for tensor in self.state]),
            ("output", [ACTION, CONTEXT, EXECUTED, PREVIOUS_ACTION, *(signal.name for signal in self.extra_outputs)]),
        ):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{kind} name used twice: {', '.join(twice)}")
        if self.atlas is not None and self.atlas.size != self.context_size:
            raise ValueError(f"the atlas has contexts of size {self.atlas.size}, the policy of {self.context_size}")
        if self.recovery is not None and self.atlas is None:
            raise ValueError("there is a time to adapt (recovery), but no atlas to detect changes by")
        if self.training_ranges is not None:
            sizes = {signal.name: signal.size for signal in (*self.observation, self.action)}
            self.training_ranges.require_fit(sizes, self.action.name)
        if self.lookahead is not None:
            self.lookahead.require_fit({s.name: s.shape for s in self.state}, self.action, self.observation)
        if self.probe is not None:
            self.probe.require_fit(self.extra_outputs)
        return self

    @property
    def signal_inputs(self) -> dict[str, Signal]:
        """The signal of each graph input that takes an observed signal; `Session.step` uses the signal's name."""
        return {observation_input(signal.name): signal for signal in self.observation}

    @property
    def age_inputs(self) -> dict[str, int]:
        """The size of each graph input that takes ages of signals; only models with lookahead have one."""
        return {} if self.lookahead is None else {AGE: len(self.observation)}

    @property
    def feedback(self) -> dict[str, str]:
        """The graph output that a session feeds back to each recurrent graph input at the next step."""
        states = {state_input(tensor.name): state_output(tensor.name) for tensor in self.state}
        return {PREVIOUS_ACTION: ACTION, **states}

    @property
    def answers(self) -> dict[str, Signal]:
        """The signal of each graph output except the next state."""
        context = {} if self.context is None else {CONTEXT: self.context.signal}
        return {ACTION: self.action, **context, **{signal.name: signal for signal in self.extra_outputs}}

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the graph's inputs by name, without the batch axis."""
        sizes = {name: signal.size for name, signal in self.signal_inputs.items()} | self.age_inputs
        shapes: dict[str, tuple[int, ...]] = {name: (size,) for name, size in sizes.items()}
        return shapes | {name: self.outputs[output] for name, output in self.feedback.items()}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the graph's outputs by name, without the batch axis."""
        shapes: dict[str, tuple[int, ...]] = {name: (signal.size,) for name, signal in self.answers.items()}
        return shapes | {state_output(tensor.name): tensor.shape for tensor in self.state}

    @property
    def context_size(self) -> int:
        """C, the length of the context; 0 for a memoryless policy."""
        return 0 if self.context is None else self.context.size

    def golden_steps(self) -> GoldenSteps | None:
        """Return the decoded golden steps, or None if the model has none.

        Raises:
            ContractError: They cannot be decoded, or do not have the signals and sizes of this contract.
        """
        if self.golden is None:
            return None
        # Files of memoryless policies may hold a context of size 0.
        arrays = {name: value for name, value in self.golden.decode().items() if value.shape[1]}
        sizes = {name: value.shape[1] for name, value in arrays.items()}
        expected = {name: s.size for name, s in {**self.signal_inputs, EXECUTED: self.action, **self.answers}.items()}
        expected |= {**self.age_inputs, HOLDS: 1} if self.age_inputs else {}
        if sizes != expected:
            raise ContractError(
                f"the golden steps of {self.name!r} hold {sizes}; its signals are {expected}. Export the model again."
            )
        return GoldenSteps(
            observation={signal.name: arrays[name] for name, signal in self.signal_inputs.items()},
            executed=arrays[EXECUTED],
            answers={name: arrays[name] for name in self.answers},
            resets=self.golden.resets,
            age=arrays.get(AGE),
            holds=arrays.get(HOLDS),
        )

    def pack_golden(self, steps: GoldenSteps) -> Golden:
        """Encode golden steps for the contract's field `golden`; `golden_steps` decodes them.

        Raises:
            ContractError: The arrays differ in their number of steps, or contain NaN or infinity.
        """
        observed = {name: steps.observation[signal.name] for name, signal in self.signal_inputs.items()}
        ages = {} if steps.age is None or steps.holds is None else {AGE: steps.age, HOLDS: steps.holds}
        return Golden.encode({**observed, EXECUTED: steps.executed, **steps.answers, **ages}, steps.resets)

    def metadata(self) -> dict[str, str]:
        """Return a model file's metadata: the contract as JSON, and the SHA-256 of this text.

        Raises:
            ContractError: See `dumps`.
        """
        text = self.dumps()
        return {METADATA_KEY: text, HASH_KEY: text_sha256(text)}

    def dumps(self) -> str:
        """Return the contract as JSON.

        Raises:
            ContractError: JSON cannot represent a value, such as a NaN among the evaluation's numbers.
        """
        try:
            return json.dumps(self.model_dump(mode="json", by_alias=True), allow_nan=False, separators=(",", ":"))
        except ValueError as error:
            raise ContractError(
                f"the contract of {self.name!r} cannot be written as JSON: {error}. "
                "Use null for a number that was not measured."
            ) from error

    @classmethod
    def parse(cls, text: str, source: str) -> Contract:
        """Read a contract.

        Args:
            text: The JSON document.
            source: Where it came from, for messages: a file's path.

        Raises:
            ContractError: The text is no JSON, has another version, or a field is wrong.
        """
        version = _version_of(text, source)
        if isinstance(version, int) and version > CONTRACT_VERSION:
            raise ContractError(
                f"{source} has contract version {version}; this sami_runtime reads version {CONTRACT_VERSION}. "
                f"Upgrade with: {upgrade_hint()}"
            )
        try:
            return cls.model_validate_json(text, strict=True)
        except ValidationError as error:
            faults = printable(faults_of(error, json.loads(text), cls))
            raise ContractError(f"{source}: contract: {faults}. Export the model again.") from error


def observation_input(name: str) -> str:
    """Return the graph input that takes the observation signal `name`."""
    return f"observation.{name}"


def state_input(name: str) -> str:
    """Return the graph input that takes the state tensor `name`."""
    return f"state.{name}.in"


def state_output(name: str) -> str:
    """Return the graph output that gives the next value of the state tensor `name`."""
    return f"state.{name}.out"


def text_sha256(text: str) -> str:
    """Return the hash of a contract's JSON."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _version_of(text: str, source: str) -> Any:
    """Return a document's version, which is read before all other fields are checked."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{source} has a contract that is not JSON: {error}. Export the model again.") from error
    if plain_strings(document, allowed="\n\t") != document:
        raise ContractError(
            f"{source} has a contract with characters that a terminal obeys instead of printing them. Export the model "
            "again, under names that can be printed."
        )
    if not isinstance(document, dict) or "version" not in document:
        raise ContractError(f"{source} has a contract without a version. Export the model again.")
    return document["version"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
