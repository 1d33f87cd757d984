"""Seeds faults into policies and their recipes, and runs `sami diagnose` on them.

    python benchmarks/seeded_faults.py POLICY [POLICY ...] [--random 100]

POLICY is an argument of `sami adopt` that needs no contract, or POLICY,CONTRACT. Use policies that did not determine
the thresholds of `sami_runtime/adoption/diagnosis.py`. A fault is found if the check for it reports a fault, and
`unclear` if that check reports that the network does not show it. `--random N` adds untrained networks: only a dead
command can be inferred from them, so any other reported fault is a false alarm.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from seeded_bugs import interval

from sami_runtime.adoption.adopt import adopt_in_process, read_policy
from sami_runtime.adoption.audit import quantity_of
from sami_runtime.adoption.diagnosis import diagnose
from sami_runtime.adoption.hypotheses import other_side
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.adoption.sources import FieldSource, PolicyReading

LEGS = [f"{leg}_{part}" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
DEGREES = 180 / np.pi


class Fault(NamedTuple):
    """A policy with a fault, and the checks that may detect it."""

    kind: str
    checks: tuple[str, ...]
    policy: bytes
    values: dict[str, Any]


def faults(policy: bytes, recipe: Recipe, rng: np.random.Generator) -> Iterator[Fault]:
    """Yield the faults that a policy can have."""
    values = recipe.model_dump(mode="json", exclude_unset=True)
    quantities = {signal.name: quantity_of(signal.name, signal) for signal in recipe.signals}

    def variant(quantity: str, **changes: Any) -> dict[str, Any] | None:
        """Return the recipe with changed fields of these signals; None if there is no such signal."""
        other = copy.deepcopy(values)
        terms = [term for term in other["signals"] if quantities[term["name"]] in quantity.split("+")]
        for term in terms:
            term.update({key: change(term) for key, change in changes.items()})
        return other if terms else None

    def scaled(quantity: str, factor: Any) -> dict[str, Any] | None:
        return variant(quantity, scale=lambda term: (np.asarray(factor) * np.asarray(term["scale"])).tolist())

    joints = "joint_positions+joint_velocities"
    orders = {
        "left and right swapped": lambda names: [other_side(name) for name in names],
        "grouped by joint type": lambda names: sorted(names, key=lambda n: n.split("_", 1)[-1]),
        "at random": lambda names: [names[i] for i in np.random.default_rng(len(names)).permutation(len(names))],
    }
    if all(set(t.elements) == set(recipe.action.elements) for t in recipe.signals if quantities[t.name] in joints):
        for name, order in orders.items():
            other = variant(joints, elements=lambda term, order=order: order(term["elements"]))
            if other and other != values and set(order(recipe.action.elements)) == set(recipe.action.elements):
                yield Fault(f"joints {name}", ("joint order",), policy, other)
    signs = np.where(rng.permutation(len(recipe.action.elements)) < 3, -1.0, 1.0)
    for kind, check, other in (
        ("sign of gravity", "sign of gravity", scaled("gravity", -1)),
        ("sign of all velocities", "sign of velocities", scaled("joint_velocities", -1)),
        ("sign of three joints", "sign of single joints", scaled(joints, signs)),
        ("joint angles in degrees", "saturation", scaled("joint_positions", DEGREES)),
    ):
        if other:
            yield Fault(kind, (check, "torques") if "degrees" in kind else (check,), policy, other)
    for term in recipe.signals:
        if quantities[term.name] == "command" and not term.history:
            start = term.slice[0]
            for kind, columns in (("command ignored", range(*term.slice)), ("an element ignored", [start])):
                dead = masked(policy, term.input or recipe.input, list(columns))
                yield Fault(kind, (f"command {term.name}",), dead, values)
    if recipe.action.kp and recipe.action.kd:
        swapped = values["action"] | {"kp": values["action"]["kd"], "kd": values["action"]["kp"]}
        yield Fault("kp and kd swapped", ("gains",), policy, values | {"action": swapped | {"effort": 100.0}})


def masked(policy: bytes, name: str, columns: list[int]) -> bytes:
    """Return a policy that ignores columns of an input."""
    model = onnx.load_from_string(policy)
    size = next(entry for entry in model.graph.input if entry.name == name).type.tensor_type.shape.dim[-1].dim_value
    mask = np.ones(size, np.float32)
    mask[columns] = 0
    for node in model.graph.node:
        node.input[:] = ["masked_input" if other == name else other for other in node.input]
    model.graph.initializer.append(onnx.numpy_helper.from_array(mask, "input_mask"))
    model.graph.node.insert(0, onnx.helper.make_node("Mul", [name, "input_mask"], ["masked_input"]))
    return bytes(model.SerializeToString())


def random_policy(seed: int) -> PolicyReading:
    """Return a network of random weights with the recipe of a dog."""
    rng = np.random.default_rng(seed)
    sizes, nodes, weights, last = (45, 256, 128, 12), [], [], "obs"
    for layer, (wide, narrow) in enumerate(itertools.pairwise(sizes)):
        matrix = rng.normal(0, wide**-0.5, (wide, narrow)).astype(np.float32)
        weights += [onnx.numpy_helper.from_array(matrix, f"w{layer}")]
        weights += [onnx.numpy_helper.from_array(rng.uniform(-0.1, 0.1, narrow).astype(np.float32), f"b{layer}")]
        end = layer == len(sizes) - 2
        nodes.append(
            onnx.helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], ["actions" if end else f"z{layer}"])
        )
        if not end:
            nodes.append(onnx.helper.make_node("Elu", [f"z{layer}"], [f"x{layer}"]))
        last = f"x{layer}"
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "random", [info("obs", 1, [1, 45])], [info("actions", 1, [1, 12])], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    pose = [0.1, 0.8, -1.5] * 4

    def signal(name: str, unit: str, elements: list[str], start: int, scale: float, **fields: Any) -> dict[str, Any]:
        place = [start, start + len(elements)]
        return {"name": name, "unit": unit, "elements": elements, "slice": place, "scale": scale, **fields}

    values = {
        "name": f"random {seed}",
        "rate_hz": 50.0,
        "input": "obs",
        "output": "actions",
        "signals": [
            signal("angular_velocity", "rad/s", list("xyz"), 0, 0.25),
            signal("gravity", "1", list("xyz"), 3, 1.0),
            signal("command", "m/s", ["forward", "left", "turn"], 6, 1.0, command=True),
            signal("joint_positions", "rad", LEGS, 9, 1.0, offset=pose),
            signal("joint_velocities", "rad/s", LEGS, 21, 0.05),
        ],
        "last_action": {"slice": [33, 45], "kind": "raw"},
        "action": {"name": "targets", "unit": "rad", "elements": LEGS, "meaning": "position targets"}
        | {"scale": 0.25, "default": pose, "clip": 100.0, "kp": 20.0, "kd": 0.5, "effort": 23.7},
    }
    return PolicyReading(bytes(model.SerializeToString()), values, {name: _FILE for name in values})


_FILE = FieldSource(kind="file", where="benchmark")


class Tally:
    """Counts of outcomes by kind of fault, and of false alarms."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.outcomes: dict[str, Counter[str]] = {}
        self.alarms: Counter[str] = Counter()
        self.clean = self.alarmed = 0
        self.unclear: Counter[str] = Counter()

    def add(self, reading: PolicyReading, name: str, rng: np.random.Generator) -> None:
        """Diagnose a policy as it is and with each fault."""
        recipe = reading.recipe(name)
        findings = diagnose(adopt_in_process(reading, name)).findings
        wrong = [finding.check for finding in findings if finding.status == "fault"]
        self.clean += 1
        self.alarmed += bool(wrong)
        self.alarms.update(wrong)
        self.unclear.update(finding.check for finding in findings if finding.status == "unclear")
        if wrong:
            print(f"  {name}: called faults though nothing is wrong: {', '.join(wrong)}", flush=True)
        for fault in faults(reading.policy, recipe, rng):
            other = PolicyReading(fault.policy, fault.values, reading.sources)
            after = {finding.check: finding.status for finding in diagnose(adopt_in_process(other, name)).findings}
            states = [after.get(check, "unclear") for check in fault.checks]
            outcome = next((state for state in ("fault", "unclear") if state in states), "missed")
            self.outcomes.setdefault(fault.kind, Counter())[outcome] += 1
            if outcome == "missed":
                print(f"  {name}: missed {fault.kind}", flush=True)

    def __str__(self) -> str:
        rows = [self.title, f"{'':28}found  unclear  missed  of"]
        for kind, count in self.outcomes.items():
            rows.append(f"{kind:28}{count['fault']:>5}{count['unclear']:>9}{count['missed']:>8}{count.total():>4}")
        low, high = interval(self.alarmed, self.clean)
        rows.append(f"false alarms: {self.alarmed} of {self.clean} policies (95 %: {low:.1%} to {high:.1%})")
        rows += [f"  {check}: {count}" for check, count in self.alarms.items()]
        rows += [f"unclear without a fault: {', '.join(f'{check} {n}' for check, n in self.unclear.items())}"]
        return "\n".join(rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("policies", nargs="*")
    parser.add_argument("--random", type=int, default=0)
    options = parser.parse_args()
    policies, random = Tally("trained policies"), Tally("random networks")
    for number, text in enumerate(options.policies):
        policy, _, contract = text.partition(",")
        reading = read_policy(Path(policy), Path(contract) if contract else None)
        policies.add(reading, reading.recipe(text).name, np.random.default_rng(number))
    for seed in range(options.random):
        random.add(random_policy(seed), f"random {seed}", np.random.default_rng(seed))
    print("\n\n".join(str(tally) for tally in (policies, random) if tally.clean))


if __name__ == "__main__":
    main()
