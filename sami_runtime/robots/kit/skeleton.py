"""Writes the skeleton of an adapter: a file with the robot's numbers from a model file, and a list of TODOs."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sami_runtime.errors import SamiError, in_shell
from sami_runtime.files import output
from sami_runtime.model.contract import Contract
from sami_runtime.model.training_ranges import TrainingRanges
from sami_runtime.signals import Signal

WIDTH = 110
"""Most characters in a line of text."""


def write_skeleton(contract: Contract, out: Path, model: str, force: bool = False) -> None:
    """Write the skeleton of an adapter.

    Args:
        contract: Of the model that is to drive.
        out: Path of the module, such as `my_arm.py`.
        model: Name of the model on the command line.
        force: Whether to overwrite an existing file.

    Raises:
        SamiError: `out` is no valid module name, exists already, or cannot be written.
    """
    if out.suffix != ".py" or not out.stem.isidentifier() or keyword.iskeyword(out.stem):
        raise SamiError(f"{out} is no module that could be imported; give a name such as my_arm.py.")
    text = skeleton(contract, out.stem, model)
    with output(out, force) as temporary:
        temporary.write_text(text, encoding="utf-8")


def skeleton(contract: Contract, module: str, model: str) -> str:
    """Return an adapter's source, which declares its signals, and whose `reset` raises until it is completed.

    It will be imported as `module`, and the command line names its model `model`.
    """
    name = "".join(part.capitalize() for part in module.split("_"))
    name = name if name.isidentifier() and not keyword.iskeyword(name) else "Arm"
    observation = "".join(_signal(signal, contract.training_ranges) + ",\n" for signal in contract.observation)
    return _TEMPLATE.format(
        module=module,
        model=_escaped(in_shell(model)),
        model_text=_escaped(_escaped(model)),  # escaped for TOML, within Python
        policy=_escaped(contract.name),
        rate=f"{contract.rate_hz:g}",
        steps=contract.episode_steps,
        sheet="\n".join(map(_escaped, _sheet(contract))),
        numbers=_numbers(contract),
        observation=textwrap.indent(observation.rstrip(), " " * 4),
        action=_signal(contract.action, None),
        remains="\n".join(f"    {_quoted(line, 4)}," for line in _remains(contract)),
        moves="from sami_runtime.signals import Moves\n" if contract.action.moves else "",
        name=name,
        puts="\n".join(_put(signal) for signal in contract.observation),
        meaning=textwrap.indent(
            _commented(f"action: {_listed(contract.action)}. {contract.action.meaning}", 8), " " * 8
        ),
    )


def _sheet(contract: Contract) -> list[str]:
    """Return the model's data sheet as lines of text."""
    sheet = contract.sheet
    if sheet is None:
        return ["The model lacks frame and home pose; `sami describe` adds them where its environment knows them."]
    lines = [f"Frame: {sheet.frame}.", f"Home: {sheet.home}.", *([f"Gains: {sheet.gains}."] if sheet.gains else [])]
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]


def _numbers(contract: Contract) -> str:
    if contract.sheet is None or not contract.sheet.numbers:
        return "NUMBERS = {}"
    rows = []
    for name, number in contract.sheet.numbers.items():
        field, unit = f"    {_string(name)}: {number.values!r},", f"  # {_escaped(number.unit)}"
        if len(field) > WIDTH:
            values = (f"        {value!r}," for value in number.values)
            field = "\n".join([f"    {_string(name)}: (", *values, "    ),"])
        rows.append(field + unit)
    return "\n".join(["NUMBERS = {", *rows, "}"])


def _signal(signal: Signal, training: TrainingRanges | None) -> str:
    elements = _tuple("elements", map(_string, signal.elements))
    fields = [f"name={_string(signal.name)}", f"size={signal.size}", f"unit={_string(signal.unit)}"]
    fields += [elements, _tuple("low", map(repr, signal.low)), _tuple("high", map(repr, signal.high))]
    if signal.meaning:
        fields.append(f"meaning={_quoted(signal.meaning, 4)}")
    if signal.command:
        fields.append("command=True")
    if signal.moves:
        rows = (
            f"        {_string(element)}: Moves(element={_string(entry.element)}, scale={entry.scale!r}),"
            for element, entry in signal.moves.items()
        )
        fields.append("\n".join(["moves={", *rows, "    }"]))
    body = "\n".join(f"    {field}," for field in fields)
    return f"{_first_seen(signal, training)}Signal(\n{body}\n)"


def _tuple(name: str, values: Iterable[str]) -> str:
    """Return a field whose value is a tuple; if it is long, with one line for each value."""
    listed = list(values)
    line = f"{name}=({', '.join(listed)}{',' * (len(listed) == 1)})"
    if len(line) <= WIDTH - 8:
        return line
    return "\n".join([f"{name}=(", *(f"        {value}," for value in listed), "    )"])


def _first_seen(signal: Signal, training: TrainingRanges | None) -> str:
    """Return a comment with a signal's values at the beginning of training episodes; empty if they are unknown."""
    if training is None or signal.name not in training.begin:
        return ""
    first = training.begin[signal.name]
    rounded = ((f"{low:.3g}", f"{high:.3g}") for low, high in np.round((first.lowest, first.highest), 6).T + 0.0)
    ranges = (
        f"{element} {low}" if low == high else f"{element} {low} to {high}"
        for element, (low, high) in zip(signal.elements, rounded, strict=True)
    )
    return _commented(f"At the beginning of an episode: {', '.join(ranges)} {signal.unit}.", 4) + "\n"


def _remains(contract: Contract) -> Iterable[str]:
    home = f": {contract.sheet.home}" if contract.sheet else ", where the episodes of training began"
    yield "__init__: connect to the arm, by the settings of robot.toml, and listen to its sensors in a thread"
    yield f"reset: bring the arm home{home}"
    for signal in contract.observation:
        yield f"hear: {signal.name}, {_listed(signal)}"
    yield f"write: send {', '.join(contract.action.elements)}, and return what was really sent"
    yield "stop: bring the arm to rest, from any state, more than once"
    yield "close: give the connection back"


def _listed(signal: Signal) -> str:
    return f"{', '.join(signal.elements)} [{signal.unit}]"


def _put(signal: Signal) -> str:
    value = f"message[{_string(signal.name)}]"
    reserved = keyword.iskeyword(signal.name)
    by_name = f"**{{{_string(signal.name)}: {value}}}" if reserved else f"{signal.name}={value}"
    line = f"        self.latest.put(measured, {by_name})"
    return f"{line}  # {_escaped(_listed(signal))}"[: max(WIDTH + 10, len(line))]


def _quoted(text: str, indent: int) -> str:
    """Return a string's source, over several lines if it is long; `indent` is that of its line."""
    if len(text) <= WIDTH - indent - 12:
        return _string(text)
    parts = textwrap.wrap(
        text,
        WIDTH - indent - 8,
        expand_tabs=False,
        replace_whitespace=False,
        drop_whitespace=False,
        break_long_words=False,
    )
    inner, outer = " " * (indent + 4), " " * indent
    return "\n".join(["(", *(inner + _string(part) for part in parts), outer + ")"])


def _string(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Return a model file's text, escaped for double quotes and for a comment of one line.

    All text of a model file passes here, so that no file can inject code.
    """
    return "".join(
        f"\\{character}" if character in '\\"' else character if character.isprintable() else repr(character)[1:-1]
        for character in text
    )


def _commented(text: str, indent: int) -> str:
    return textwrap.fill(_escaped(" ".join(text.split())), WIDTH - indent, initial_indent="# ", subsequent_indent="# ")


_TEMPLATE = '''"""Drives an arm by the policy {policy}: a beginning, to be filled in.

Take each line out of REMAINS as it is done; until then nothing moves. What helps is in `sami_runtime.robots.kit`:
frames and their calibration, other clocks, velocities, units, inverse kinematics. In this folder:

    sami check-adapter {module}:make --model {model}  # reads, and writes nothing
    sami check-adapter {module}:make --model {model} --limits limits.toml --excite # MOVES it
    sami drive robot.toml --check  # everything but moving
    sami drive robot.toml --dry-run  # resets and infers, and writes nothing
    sami drive robot.toml

where robot.toml says, beside what docs/reference/robot-file.md lists:

    version = 1
    model = "{model_text}"
    adapter = "{module}:make"
    limits = "limits.toml"

The policy acts {rate} times a second, {steps} steps an episode. What its numbers mean, as `sami inspect` prints it:

{sheet}
"""

from sami_runtime import AdapterError, Executed, Signal
from sami_runtime.robots.kit import Latest
{moves}
REMAINS = [
{remains}
]
"""Each line has its TODO below."""

{numbers}
"""What frame and home pose mean in numbers."""

OBSERVATION = (
{observation}
)
"""What the policy reads; between `low` and `high`."""

ACTION = {action}
"""What the policy writes."""


class {name}:
    """The arm.

    Args:
        clock: The loop's; it stamps observations.
        contract: What the model says about itself.
        config: The settings of robot.toml, or of --adapter-config; None without.
    """

    observation, action = OBSERVATION, ACTION

    def __init__(self, clock, contract, config=None):
        self.clock, self.latest = clock, Latest(OBSERVATION, clock)
        self.arm = None  # TODO: connect, and start a thread that calls hear() with every message

    def hear(self, message):
        """Take a message of the sensors, in the contract's frame and units."""
        measured = self.clock.now()  # TODO: when it was measured, by ClockSync where the sensor has a clock
{puts}

    def reset(self, seed=None):
        """Begin an episode."""
        if REMAINS:
            raise AdapterError("{module}.py is a skeleton. What remains:\\n- " + "\\n- ".join(REMAINS))
        # TODO: bring the arm home, and wait until it rests there
        self.latest.reset()  # what was measured before does not count

    def read(self):
        """Return the newest of each signal, each with its stamp."""
        return self.latest.observation()

    def write(self, action):
        """Send an action (A,), and say what was really sent."""
{meaning}
        # TODO: send it; return what the arm's own limits left of it, for the policy learns from what was done
        return Executed(action.copy())

    def stop(self):
        """Bring the arm to rest; also before it was connected, and twice."""
        if self.arm is not None:
            pass  # TODO: stop it

    def close(self):
        """Give the connection back; also after a failure, and twice."""
        self.arm = None  # TODO: close it


make = {name}
'''
