"""Adopts a policy in a process of its own, which may not take much time or memory: its graph may be hostile."""

from __future__ import annotations

import json
import sys

from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.child import python_command
from sami_runtime.model.artifact import Artifact, judge
from sami_runtime.session.admission import confined, limit_process, reply

CPU_S = 60
"""Longest time [s] of a processor for all of an adoption, about 1,200 steps; a policy of a robot takes 1 to 3."""
MEMORY = 3 << 30
"""Most bytes beyond what Python and onnxruntime take; weights of 256 MB are stored several times."""


def adopted_apart(reading: PolicyReading, where: str) -> Artifact:
    """Return the adopted file, not written yet; neither onnx nor onnxruntime reads the policy in this process.

    Raises:
        SamiError: The reading is incomplete, or the policy is refused.
    """
    recipe = reading.recipe(where)  # what a person left out costs no process
    header = {
        "values": recipe.model_dump(mode="json", exclude_unset=True),
        "sources": {name: source.model_dump() for name, source in reading.sources.items()},
    }
    data = json.dumps(header).encode() + b"\n" + reading.policy
    command = python_command("sami_runtime.adoption.confinement", where, CPU_S, MEMORY)
    return judge(confined(command, data, where, CPU_S, "export the policy again"), where)


def main(where: str, cpu_s: int, memory: int) -> None:
    """Read a recipe and a policy from stdin, adopt it within limits, and write the file to stdout."""
    from sami_runtime.adoption.adopt import adopt_here, import_onnx

    header, _, policy = sys.stdin.buffer.read().partition(b"\n")
    document = json.loads(header)
    sources = {name: FieldSource.model_validate(source) for name, source in document["sources"].items()}
    reading = PolicyReading(policy, document["values"], sources)

    def adoption() -> bytes:
        import_onnx()
        limit_process(cpu_s, memory)
        return adopt_here(reading, where).model_bytes

    reply(where, adoption, memory)
