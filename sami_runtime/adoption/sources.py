"""Tracks the source of each field of a recipe: a file, a table, a default, an inference, or unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sami_runtime.adoption.recipe import (
    LAST_ACTION,
    ActionTerm,
    LastAction,
    Recipe,
    SignalTerm,
    StatePair,
    fields_of,
    moves_robot,
    tables_in,
)
from sami_runtime.errors import ContractError
from sami_runtime.model.artifact import scan_bytes
from sami_runtime.signals import Entry


class FieldSource(Entry):
    """The source of a field's value."""

    kind: Literal["file", "table", "default", "inferred", "unknown"]
    """A file of the user's, a table of this package, the framework's default, a guess, or no source."""
    where: str
    """The file and its key, the table, or why the source is unknown."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}" if self.where else self.kind


@dataclass(frozen=True)
class PolicyReading:
    """What a reader found in a framework's files; it may be incomplete."""

    policy: bytes
    """The ONNX model."""
    values: Mapping[str, Any]
    """The recipe's fields, nested as in its TOML file."""
    sources: Mapping[str, FieldSource] = field(default_factory=dict)
    """By dotted field, `"signals.gravity.scale"` or, for a whole table, `"signals.gravity"`; also of missing fields."""

    def source_of(self, name: str) -> FieldSource:
        """Return the source of a field: its own, or that of the closest table around it."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if source := self.sources.get(".".join(parts[:end])):
                return source
        return FieldSource(kind="unknown", where="no source is given")

    def overlaid(self, document: Mapping[str, Any], where: str) -> PolicyReading:
        """Return a copy in which the fields of a person's contract replace those of the reader."""
        sources = dict(self.sources)
        for name, _ in fields_of(document):
            for covered in [other for other in self.sources if other.startswith(f"{name}.")]:
                sources.pop(covered, None)
            sources[name] = FieldSource(kind="file", where=where)
        values = _merged(self.values, document)
        inputs = [signal.get("input") for signal in tables_in(values.get("signals")).values()]
        if inputs and all(inputs) and not {"input", "history", LAST_ACTION} & values.keys():  # nothing else reads it
            values, sources["input"] = values | {"input": inputs[0]}, FieldSource(kind="file", where=where)
        return PolicyReading(self.policy, values, sources)

    def recipe(self, where: str) -> Recipe:
        """Return the complete recipe.

        Raises:
            ContractError: A field is missing or wrong, or one that moves a robot is a default or a guess.
        """
        if guesses := self.guesses():
            listed = "; ".join(f"{name} ({source})" for name, source in guesses.items())
            raise ContractError(
                f"{where} does not say what moves the robot: {listed}. Give these fields in --contract; "
                "`sami adopt POLICY --draft my.toml` writes a file to complete."
            )
        return Recipe.parse(self.values, where)

    def guesses(self) -> dict[str, FieldSource]:
        """Return, with their sources, the fields that move a robot and come from neither a file nor a table."""
        names = [name for name, _ in fields_of(self.values)]
        tables = {name[: at + 1] for name in names for at, letter in enumerate(name) if letter == "."}
        unknown = [name for name, source in self.sources.items() if source.kind == "unknown"]
        missing = [name for name in unknown if name not in names and f"{name}." not in tables]
        guesses = {name: self.source_of(name) for name in [*names, *missing] if moves_robot(name)}
        return {name: source for name, source in guesses.items() if source.kind not in ("file", "table")}


HINTS = {
    "rate_hz": "how often the policy acts [1/s], e.g. 50.0",
    "input": 'a tensor that the network reads, e.g. "obs"',
    "output": 'a tensor that it returns, e.g. "actions"',
    "name": 'letters, digits and _, e.g. "joint_angles"',
    "unit": 'of the robot\'s numbers, e.g. "rad"; "1" for none',
    "elements": 'a name for each number, in the policy\'s order, e.g. ["hip", "knee"]',
    "slice": "the columns of the input: the first, and the one after the last, e.g. [0, 2]",
    "signals.scale": "training multiplied the number by it, e.g. 0.05; 1.0 for none; a list has one for each element",
    "offset": "training subtracted it, mostly the default pose, e.g. [0.1, 0.8]; 0.0 for none",
    "meaning": 'e.g. "position targets of the joints"',
    "action.scale": "the robot gets default + scale * output, e.g. 0.25; a list has one for each element",
    "default": "the action at an output of 0, mostly the default pose, e.g. [0.1, 0.8]; 0.0 for none",
    "kind": '"raw", the network\'s last output, or "applied", the action that the robot executed',
    "history": '{ steps = 5, first = "oldest", start = "repeat" }, or first = "newest", start = "zero"',
}
"""What a missing field of a recipe means, with an example, by its key."""
SIGNALS = """\
# One table [[signals]] for each quantity that the network reads: {sizes}.
# Add `offset` and `clip` if training had them, and `input` if the network has several, instead of above. The last
# action is no signal, but a table [last_action] with `slice` and `kind`, "raw" (the network's output) or "applied" (the
# action that the robot executed). A recurrent tensor is a table [[state]] with `name`, `input`, `output`; `initial` if
# not 0."""


def draft(reading: PolicyReading) -> str:
    """Return an incomplete recipe as TOML: each field with its source, and each gap marked."""
    lines = ["# For `sami adopt --contract`. Fill in each line that begins with # ???; check values that no file gave."]
    values = dict(reading.values)
    signals, state = tables_in(values.pop("signals", [{}])), tables_in(values.pop("state", []))
    tables = {key: dict(values.pop(key)) for key in (LAST_ACTION, "action") if isinstance(values.get(key), Mapping)}
    lines += _keys(values, "", reading, Recipe)
    if not any(signals.values()):
        inputs, states = scan_bytes(reading.policy, "the policy").inputs, [pair.get("input") for pair in state.values()]
        signals_in = [tensor for tensor in inputs if tensor.shape and tensor.name not in states]
        sizes = [f"{tensor.name} has {tensor.shape[-1]} columns" for tensor in signals_in]
        lines += ["", SIGNALS.format(sizes=", ".join(sizes))]
    for name, entry in signals.items():
        lines += ["", "[[signals]]", *_keys(entry, f"signals.{name}.", reading, SignalTerm)]
    if LAST_ACTION in tables:
        lines += ["", f"[{LAST_ACTION}]", *_keys(tables[LAST_ACTION], f"{LAST_ACTION}.", reading, LastAction)]
    lines += ["", "[action]", *_keys(tables.get("action", {}), "action.", reading, ActionTerm)]
    for name, entry in state.items():
        lines += ["", "[[state]]", *_keys(entry, f"state.{name}.", reading, StatePair)]
    return "\n".join([*lines, ""])


def _keys(table: Mapping[str, Any], prefix: str, reading: PolicyReading, kind: type[Entry]) -> list[str]:
    """Return a line for each key of a table, and for each required key that is missing."""
    lines = []
    for key, value in table.items():
        source = reading.source_of(f"{prefix}{key}")
        doubtful = source.kind not in ("file", "table") and moves_robot(f"{prefix}{key}")
        lines.append(f"{'# ???  ' if doubtful else ''}{key} = {_toml(value, key)}  # {source}")
    for key, info in kind.model_fields.items():
        reason = reading.sources.get(f"{prefix}{key}")
        needed = info.is_required() or (reason is not None and reason.kind == "unknown")
        if needed and key not in table and key not in ("signals", "action"):
            hint = HINTS.get(key) or HINTS.get(f"{prefix.partition('.')[0]}.{key}", "")
            lines.append(f"# ???  {key} =   # missing: {hint}" + (f" ({reason.where})" if reason else ""))
    return lines


def _toml(value: Any, key: str = "") -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(inner, key) for inner in value) + "]"
    if value is None:  # no bound
        return "-inf" if key == "low" else "inf"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _merged(values: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with the entries of `document` in place of theirs; tables in lists are matched by name."""
    merged = dict(values)
    for key, value in document.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key] = _merged(old, value)
        elif (entries := tables_in(value)) and (before := tables_in(old)):
            entries = {name: _merged(before.get(name, {}), entry) for name, entry in entries.items()}
            merged[key] = list({**before, **entries}.values())
        else:
            merged[key] = value
    return merged
