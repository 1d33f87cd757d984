"""Writes C++ header and source of a policy: constants of contract and limits, weights, and statements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import PREVIOUS_ACTION, Contract, state_input, state_output
from sami_runtime.model.lookahead import AGE, PAST_ACTIONS
from sami_runtime.robots.c_export.program import Program, literal
from sami_runtime.robots.c_export.resolved_limits import cpp_value, resolved_limits
from sami_runtime.robots.c_export.tensors import static_graph
from sami_runtime.safety.limits import Limits, elements_of

FOLDER = Path(__file__).parent
KEYWORDS = frozenset(
    """
alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not nullptr operator or private protected public register return short signed sizeof static std
struct switch template this throw true try typedef typename union unsigned using sami virtual void volatile while xor
""".split()  # noqa: SIM905 - as it is read
)
"""Reserved names: the keywords of C++, and the namespaces `std` and `sami`."""

LOOP_HZ, LATE_WRITES = 1000.0, 1000
"""Rate of the fastest loop [1/s] in which the workspace uses a position up to max_age_s, and the most writes kept."""


def identifier(name: str) -> str:
    """Return a valid C++ identifier for a name.

    >>> identifier("panda-satesac"), identifier("2nd"), identifier("new")
    ('panda_satesac', '_2nd', 'new_')
    """
    text = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "_"
    text = f"_{text}" if text[0].isdigit() else text
    return f"{text}_" if text in KEYWORDS else text


def cpp_sources(artifact: Artifact, limits: Limits | None = None) -> dict[str, str]:
    """Return header and source of a policy, by file name.

    The result is deterministic: the same file and limits give the same text.

    Args:
        artifact: The model file.
        limits: Of the gate; the default limits if None.

    Raises:
        ArtifactError: An operator of the graph has no C++ form, or onnxruntime cannot compute the graph.
        SamiError: The limits do not fit the model, or set one that the C++ gate does not support.
    """
    contract, limits = artifact.contract, limits or Limits()
    name = identifier(contract.name)
    program, shapes = _program(artifact), contract.outputs
    state = {tensor.name: math.prod(tensor.shape) for tensor in contract.state}
    sections = {"action": [("action", "action")], "context": [("context", "context")] if contract.context_size else []}
    sections["extra"] = [(signal.name, signal.name) for signal in contract.extra_outputs]
    sections["next_state"] = [(tensor.name, state_output(tensor.name)) for tensor in contract.state]
    for target, parts in sections.items():
        begin = 0
        for _, tensor in parts:
            program.store(tensor, target, begin)
            begin += math.prod(shapes[tensor])
    values = resolved_limits(limits, contract)
    members = [f"limits.{member} = {cpp_value(member, value)};" for member, value in values.items()]
    age = max(limits.max_age(contract).values()) if limits.workspace else 0.0
    writes = 2 + math.ceil(min(LATE_WRITES, LOOP_HZ * age))
    about = (
        f"// {_plain(contract.name)}, {contract.rate_hz:g} Hz, as C++17; written by `sami export --c` from the graph "
        f"with\n// SHA-256 {artifact.graph_sha256}. Do not edit. Compile with -ffp-contract=off."
    )
    header = "\n".join(
        [
            about,
            f"#ifndef SAMI_MODEL_{name.upper()}_HPP",
            f"#define SAMI_MODEL_{name.upper()}_HPP",
            "",
            (FOLDER / "sami_gate.hpp").read_text(encoding="utf-8").rstrip(),
            (FOLDER / "sami_session.hpp")
            .read_text(encoding="utf-8")
            .replace('#include "sami_gate.hpp"\n\n', "")
            .rstrip(),
            "",
            f"namespace {name} {{",
            "",
            _signals(contract),
            "struct Model {",
            *_indented(_constants(contract, state, program.scratch, writes)),
            "};",
            "",
            "// The limits of the file's contract, and of the limits.toml that it was exported with.",
            "inline sami::Limits<Model> limits() {",
            *_indented(["sami::Limits<Model> limits;", *members, "return limits;"]),
            "}",
            "",
            "using Observation = sami::Observation<Model>;",
            "using Session = sami::Session<Model>;",
            "using Telemetry = sami::Telemetry<Model>;",
            "using Gate = sami::Gate<Model>;",
            "using Runtime = sami::Runtime<Model>;",
            "",
            f"}}  // namespace {name}",
            "",
            "#endif",
            "",
        ]
    )
    parameters = (
        "[[maybe_unused]] const float* observation, [[maybe_unused]] const float* age,\n"
        "    [[maybe_unused]] const float* previous_action, [[maybe_unused]] const float* state, float* action,\n"
        "    [[maybe_unused]] float* context, [[maybe_unused]] float* extra, [[maybe_unused]] float* next_state,\n"
        "    [[maybe_unused]] float* scratch"
    )
    source = "\n".join(
        [
            about,
            f'#include "{name}.hpp"',
            "",
            f"namespace {name} {{",
            "namespace {",
            "",
            (FOLDER / "kernels.hpp").read_text(encoding="utf-8").rstrip(),
            "",
            *(_array("float", constant, values) for constant, values in program.constants.items()),
            "",
            "}  // namespace",
            "",
            *_atlas(contract),
            f"void Model::infer({parameters}) {{",
            *_indented(program.statements),
            "}",
            "",
            f"}}  // namespace {name}",
            "",
        ]
    )
    return {f"{name}.hpp": header, f"{name}.cpp": source}


def _program(artifact: Artifact) -> Program:
    """Return the program that computes a model's graph, with its inputs as parameters of `infer`."""
    contract, places = artifact.contract, {AGE: ("age", 0), PREVIOUS_ACTION: ("previous_action", 0)}
    parts = {
        "observation": {name: signal.size for name, signal in contract.signal_inputs.items()},
        "state": {state_input(tensor.name): math.prod(tensor.shape) for tensor in contract.state},
    }
    for parameter, sizes in parts.items():
        begin = 0
        for tensor, size in sizes.items():
            places[tensor] = parameter, begin
            begin += size
    graph = static_graph(artifact)
    inputs = {tensor: place for tensor, place in places.items() if tensor in graph.shapes}
    return Program(graph, inputs, str(artifact.path))


def _signals(contract: Contract) -> str:
    """Return C++ constants with the offset of each signal in the observation, and of each extra output in `extra()`."""
    lines, groups = [], {"signals": contract.observation, "answers": contract.extra_outputs}
    for group, signals in groups.items():
        begin, rows = 0, []
        for signal in signals:
            unit = f"  // {signal.size} [{signal.unit}]: {', '.join(signal.elements)}"
            rows.append(f"inline constexpr int {identifier(signal.name)} = {begin};{_plain(unit)}")
            begin += signal.size
        if rows:
            where = "the observation's values" if group == "signals" else "extra()"
            lines += [
                f"// Where each begins in {where}.",
                f"namespace {group} {{",
                *rows,
                f"}}  // namespace {group}",
                "",
            ]
    return "\n".join(lines)


def _constants(contract: Contract, state: dict[str, int], scratch: int, writes: int) -> list[str]:
    """Return the members of the C++ struct `Model`."""
    sizes = [signal.size for signal in contract.observation]
    offsets = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    ahead, atlas = contract.lookahead, contract.atlas
    aging = [ahead is not None and signal.name in ahead.changing for signal in contract.observation]
    names = [*state]
    past = 0 if ahead is None else sum(state[name] for name in names[: names.index(PAST_ACTIONS)])
    counts = {
        "kAction": contract.action.size,
        "kContext": contract.context_size,
        "kExtra": sum(signal.size for signal in contract.extra_outputs),
        "kState": sum(state.values()),
        "kObserved": sum(sizes),
        "kSignals": len(sizes),
        "kWrites": writes,
        "kScratch": scratch,
        "kLooksAhead": 0 if ahead is None else ahead.steps,
        "kPastSteps": 0 if ahead is None else ahead.steps,
        "kPastBegin": past,
        "kTasks": 0 if atlas is None else len(atlas.tasks),
        "kWindow": 1 if atlas is None else atlas.window,
        "kAtlasStep": 0 if atlas is None else atlas.step,
    }
    numbers = {
        "kRateHz": contract.rate_hz,
        "kThreshold": 1.0 if atlas is None else atlas.threshold,
        "kSlow": 0.0 if atlas is None else atlas.slow,
        "kFast": 0.0 if atlas is None else atlas.fast,
    }
    tasks = [", ".join(f"{key} {value}" for key, value in task.items()) for task in (atlas.tasks if atlas else ())]
    begin = 0
    initial = []
    for tensor in contract.state:
        size = state[tensor.name]
        initial.append(f"  for (int i = {begin}; i < {begin + size}; ++i) state[i] = {literal(tensor.initial)};")
        begin += size
    return [
        *(f"static constexpr int {name} = {value};" for name, value in counts.items()),
        *(f"static constexpr double {name} = {value!r};" for name, value in numbers.items()),
        f"static constexpr bool kLearned = {_truth(contract.training.get('updates') != 0)};",
        f"static constexpr std::array<int, kSignals + 1> kSignalBegin{{{', '.join(map(str, offsets))}}};",
        f"static constexpr std::array<bool, kSignals> kAging{{{', '.join(map(_truth, aging))}}};",
        _texts("kSignalNames", [signal.name for signal in contract.observation]),
        _texts("kElementNames", elements_of(contract.observation)),
        _texts("kActionNames", contract.action.elements),
        _texts("kTaskNames", tasks),
        "",
        "// What the recurrent state is when an episode begins.",
        f"static void begin({'float* state' if initial else 'float*'}) {{",
        *initial,
        "}",
        "static const double* atlas_mean();       // (kTasks, kContext)",
        "static const double* atlas_whitening();  // (kTasks, kContext, kContext)",
        "static void infer(const float* observation, const float* age, const float* previous_action,",
        "                  const float* state, float* action, float* context, float* extra, float* next_state,",
        "                  float* scratch);",
    ]


def _atlas(contract: Contract) -> Iterable[str]:
    """Yield C++ functions that return the numbers of the atlas (in-distribution reference) of contexts."""
    atlas = contract.atlas
    means = [0.0] if atlas is None else np.array(atlas.mean).reshape(-1)
    whitening = [0.0] if atlas is None else atlas.whitening.reshape(-1)
    for function, values in (("atlas_mean", means), ("atlas_whitening", whitening)):
        yield f"const double* Model::{function}() {{"
        yield f"  static constexpr double values[] = {{{', '.join(repr(float(value)) for value in values)}}};"
        yield "  return values;"
        yield "}\n"


def _array(kind: str, name: str, values: NDArray[Any]) -> str:
    texts = [*map(literal, values.tolist())]
    rows = [", ".join(texts[begin : begin + 8]) for begin in range(0, len(texts), 8)]
    return f"alignas(64) constexpr {kind} {name}[{len(texts)}] = {{\n" + ",\n".join(rows) + "};"


def _texts(name: str, texts: Iterable[str]) -> str:
    quoted = [f'"{_plain(text)}"' for text in texts]
    return f"static constexpr std::array<const char*, {len(quoted)}> {name}{{{', '.join(quoted)}}};"


def _plain(text: str) -> str:
    """Return a text that is safe inside quotes and in a comment of one line; other characters become `?`."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text)


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]
