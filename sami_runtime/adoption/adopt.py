"""Makes a self-describing file of a policy that another framework trained and exported to ONNX."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sami_runtime.adoption.graph import (
    OLDEST_OPSET,
    import_onnx,
    read_model,
    states_of,
    with_free_batch,
    wrapped_model,
)
from sami_runtime.adoption.layout import PolicyLayout, layout_of
from sami_runtime.adoption.original import OriginalPolicy
from sami_runtime.adoption.readers import read_with
from sami_runtime.adoption.recipe import DEEPEST, ActionTerm, Recipe, SignalTerm
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.checks.verify import verify
from sami_runtime.child import python_command
from sami_runtime.errors import ArtifactError, CheckFailed, ContractError
from sami_runtime.files import faults_of, output, printable, read_document
from sami_runtime.model.artifact import Artifact, graph_sha256, judge, require_safe, scan_bytes
from sami_runtime.model.contract import ACTION, ADOPTED, Contract
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.model.graph_scan import DOMAINS
from sami_runtime.session.admission import confined, limit_process, reply
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal

CPU_S = 60
"""Most processor time [s] of an adoption, which makes about 1,200 steps; a robot's policy takes 1 to 3 s."""
MEMORY = 3 << 30
"""Most memory [bytes] beyond that of Python and onnxruntime; weights of 256 MB are stored several times."""
MAX_CONTRACT_BYTES = 256 * 1024
"""Largest size of a contract [bytes]; that of a humanoid has 5 kB."""
PARITY_STEPS, PARITY_RESETS = 500, (0, 31, 150, 333)
GOLDEN_STEPS, GOLDEN_RESETS = 64, (0, 31)
DISTURBED = 0.5
"""Share of the golden steps at which another action than the policy's is executed."""
TOLERANCE = 64 * 2.0**-23
"""Largest difference of an action from the original's, as a share of the largest action of the episode so far: 64
roundings of a float32. Both run the same kernels on the same numbers, and all policies in the tests agree to the last
bit; the tolerance allows for an onnxruntime that fuses the recipe's operators with those of the network."""


def adopt(
    policy: str | Path, contract: str | Path | None, out: str | Path, reader: str | None = None, force: bool = False
) -> Artifact:
    """Make one self-describing file of a feed-forward or recurrent policy that another framework exported.

    Args:
        policy: The ONNX file, with all its weights inside, or a folder that a reader recognizes.
        contract: A TOML file with the recipe, or the part of it that no reader finds; None if nothing is missing.
        out: The file to write.
        reader: Name of the reader; chosen by the content of `policy` if None.
        force: Whether to replace an existing file.

    Returns:
        The written file. Its golden steps are outputs of the original; both agreed over 500 steps.

    Raises:
        ArtifactError: The policy is unsafe, damaged or of a kind that cannot be adopted.
        ContractError: A field is missing, wrong, or disagrees with the policy.
        CheckFailed: The written file does not answer as the original does.
    """
    reading = read_policy(policy, contract, reader)
    inputs = [Path(path) for path in (policy, contract) if path is not None]
    with output(Path(out), force, inputs) as temporary:
        artifact = adopt_reading(reading, policy)
        temporary.write_bytes(artifact.model_bytes)
    return judge(artifact.model_bytes, out)


def read_policy(policy: str | Path, contract: str | Path | None = None, reader: str | None = None) -> PolicyReading:
    """Return a policy with its recipe, as far as a reader and a person's contract give it.

    Raises:
        SamiError: A file cannot be read.
    """
    document = {} if contract is None else _read_contract(Path(contract))
    elements = document["action"].get("elements") if isinstance(document.get("action"), dict) else None
    joints = elements if isinstance(elements, list) and all(isinstance(name, str) for name in elements) else []
    reading = read_with(Path(policy), reader, joints)
    if "name" not in reading.values:
        source = FieldSource(kind="default", where="the file's name")
        values = {"name": Path(policy).stem, **reading.values}
        reading = PolicyReading(reading.policy, values, {**reading.sources, "name": source})
    return reading if contract is None else reading.overlaid(document, str(contract))


def _read_contract(path: Path) -> dict[str, Any]:
    """Return the table in a contract; raise ContractError if parsing it could take minutes."""
    text = path.read_bytes()[: MAX_CONTRACT_BYTES + 1] if path.is_file() else b""
    keys = [line.partition(b"=")[0] for line in text.splitlines()]
    if len(text) > MAX_CONTRACT_BYTES or any(b"," not in key and key.count(b".") > DEEPEST for key in keys):
        raise ContractError(
            f"{path} is larger than {MAX_CONTRACT_BYTES} bytes, or has tables more than {DEEPEST} deep. Correct it."
        )
    return read_document(path, "contracts")


def adopt_reading(reading: PolicyReading, policy: str | Path) -> Artifact:
    """Return the adopted policy in memory, not written yet; see `adopt`.

    Another process runs the policy, within limits, so that onnx and onnxruntime read no hostile graph in this one.
    """
    where = str(policy)
    recipe = reading.recipe(where)  # raises an error for an incomplete recipe before a process starts
    header = {
        "values": recipe.model_dump(mode="json", exclude_unset=True),
        "sources": {name: source.model_dump() for name, source in reading.sources.items()},
    }
    data = json.dumps(header).encode() + b"\n" + reading.policy
    command = python_command("sami_runtime.adoption.adopt", where, CPU_S, MEMORY)
    return judge(confined(command, data, where, CPU_S, "export the policy again"), where)


def main(where: str, cpu_s: int, memory: int) -> None:
    """Read a recipe and a policy from stdin, adopt it within limits, and write the file to stdout."""
    header, _, policy = sys.stdin.buffer.read().partition(b"\n")
    document = json.loads(header)
    sources = {name: FieldSource.model_validate(source) for name, source in document["sources"].items()}

    def adoption() -> bytes:
        import_onnx()
        limit_process(cpu_s, memory)
        return adopt_in_process(PolicyReading(policy, document["values"], sources), where).model_bytes

    reply(where, adoption, memory)


def adopt_in_process(reading: PolicyReading, where: str) -> Artifact:
    """Return the adopted policy; this process runs it, without limits of its own."""
    data, layout, recipe = _network_for(reading, where)
    original = OriginalPolicy(data, recipe, layout, where)
    contract = _contract(reading, recipe, layout, where)
    model = wrapped_model(with_free_batch(data), recipe, layout, contract, where)
    golden = list(original.walk(GOLDEN_STEPS, GOLDEN_RESETS, DISTURBED))
    steps = GoldenSteps(
        observation={s.name: np.stack([step.observation[s.name] for step in golden]) for s in contract.observation},
        executed=np.stack([step.executed for step in golden]),
        answers={ACTION: np.stack([step.action for step in golden])},
        resets=GOLDEN_RESETS,
    )
    update = {"weights_sha256": graph_sha256(model.SerializeToString()), "golden": contract.pack_golden(steps)}
    contract = contract.model_copy(update=update)
    import_onnx().helper.set_model_props(model, contract.metadata())
    artifact = judge(model.SerializeToString(), where)
    _require_parity(artifact, original, where)
    verify(artifact).require()
    return artifact


def _network_for(reading: PolicyReading, where: str) -> tuple[bytes, PolicyLayout, Recipe]:
    """Return the policy's bytes with its functions inlined, the layout of its graph, and its recipe."""
    data = reading.policy
    scan, model = scan_bytes(data, where), read_model(data, where)
    domains = DOMAINS | {node.domain for node in model.graph.node}
    if scan.messages["Function"] or scan.opset_domains - domains:
        for unused in [entry for entry in model.opset_import if entry.domain not in domains]:
            model.opset_import.remove(unused)  # such as ai.onnx.ml, which tf2onnx declares for every model
        data = model.SerializeToString()
        scan = scan_bytes(data, where)
    require_safe(scan, where, "Export the policy again, in float32, into one file, with plain operators.")
    newest = import_onnx().defs.onnx_opset_version()
    opset = max((entry.version for entry in model.opset_import), default=0)
    if not OLDEST_OPSET <= opset <= newest:
        raise ArtifactError(
            f"{where} has opset {opset}; {OLDEST_OPSET} to {newest} can be adopted. Export the policy with one."
        )
    recipe = reading.recipe(where)
    inputs = {*recipe.inputs, *(pair.input for pair in recipe.state)}  # set at each step, even if they have a default
    outputs = {recipe.output, *(pair.output for pair in recipe.state)}
    filled = {tensor.name for tensor in model.graph.initializer} - inputs
    if not filled <= {tensor.name for tensor in scan.inputs}:  # otherwise weights are listed as inputs, as before IR 4
        unused = {tensor.shape for tensor in scan.outputs if tensor.name not in outputs}
        filled -= {tensor.name for tensor in scan.inputs if tensor.shape in unused}  # a state that has a default
    layout = layout_of(recipe, [tensor for tensor in scan.inputs if tensor.name not in filled], scan.outputs, where)
    _require_initial(model, recipe, where)
    return data, layout, recipe


def _require_initial(model: Any, recipe: Recipe, where: str) -> None:
    """Raise ContractError if the initial value of a state in the recipe is not the default of its input in the file."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for pair in recipe.state:
        initial = np.float32(pair.initial)
        default = import_onnx().numpy_helper.to_array(tensors[pair.input]) if pair.input in tensors else initial
        if (default != initial).any():
            raise ContractError(
                f"the recipe does not fit {printable(where)}: state {pair.name!r} begins at {initial:g}, its input's "
                f"default is {default.min():g} to {default.max():g}. Correct `initial`, or the export."
            )


def _contract(reading: PolicyReading, recipe: Recipe, layout: PolicyLayout, where: str) -> Contract:
    adopted = {
        "recipe": recipe.model_dump(mode="json"),
        "sources": {name: source.model_dump() for name, source in reading.sources.items()},
        "policy_sha256": hashlib.sha256(reading.policy).hexdigest(),
    }
    values = {
        "name": recipe.name,
        "rate_hz": recipe.rate_hz,
        "observation": tuple(_signal(signal) for signal in recipe.signals),
        "action": _signal(recipe.action),
        "state": states_of(recipe, layout),
        "episode_steps": recipe.episode_steps,
        "training": {ADOPTED: adopted},
        "weights_sha256": "0" * 64,
    }
    try:
        return Contract.model_validate(values)
    except ValidationError as error:
        faults = printable(faults_of(error, values, Contract))
        raise ContractError(f"the recipe of {where}: {faults}. Correct the recipe.") from None


def _signal(term: SignalTerm | ActionTerm) -> Signal:
    size = len(term.elements)
    frame = f"in the frame {term.frame}" if isinstance(term, SignalTerm) and term.frame else ""
    values: dict[str, Any] = {key: getattr(term, key) or (None,) * size for key in ("low", "high")}
    meaning = ", ".join(filter(None, (term.meaning, frame)))
    return Signal(name=term.name, size=size, unit=term.unit, elements=term.elements, meaning=meaning, **values)


def _require_parity(artifact: Artifact, original: OriginalPolicy, where: str) -> None:
    """Compare the adopted policy with the original in closed loop: each has its own state and its own last action."""
    session, largest = Session(artifact), 0.0
    for at, step in enumerate(original.walk(PARITY_STEPS, PARITY_RESETS, disturbed=0.0)):
        if at in PARITY_RESETS:
            session.reset()
            largest = 0.0
        largest = max(largest, float(np.abs(step.action).max()))
        error = float(np.abs(session.step(step.observation).action - step.action).max())
        if not error <= TOLERANCE * largest:
            raise CheckFailed(
                f"{where}: the adopted file is off by {error:.3g} at step {at}; {TOLERANCE * largest:.3g} is allowed. "
                "Check the names and initial values of its state."
            )
