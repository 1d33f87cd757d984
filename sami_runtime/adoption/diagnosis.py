"""Probes an adopted policy before anything moves, and compares its responses with the recipe and the robot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.audit import paragraph
from sami_runtime.adoption.hypotheses import Array, other_end, other_side
from sami_runtime.adoption.network import PolicyNetwork
from sami_runtime.adoption.probing import ProbedNetwork, ProbedTerm
from sami_runtime.adoption.recipe import ActionTerm, row
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact

LARGE = 100.0
"""Size of the extreme inputs, if the recipe has no clip."""
DEAD = 1e-6
"""Influence below which an element is dead, as a share of the largest influence."""
IGNORED, WEAK = 1e-3, 0.01
"""Change of the outputs over a command's range, as a share of their size: below it, no effect; a doubtful effect."""
SATURATED, UNPHYSICAL = 1.0, 3.0
"""Torque demand of a standing robot over its limit: trained policies reach the first value, none the second."""
CLEAR, MARGIN = 0.3, 0.2
"""Share of outputs that must respond most to their own joint for a clear order; lead that another order must have."""
DECISIVE = 1.0
"""Lead of the strongest response over the second, on a log scale; one joint in ten has it by chance."""
CALMER = 1.2
"""Least ratio between the outputs upside down and upright that identifies the sign of gravity."""
MIRRORED, ONE_SIDED = 0.15, 0.25
"""Response of an output to its joint's velocity, as a share of its largest response: above the first, left and right
are compared; above the second, opposite signs are a fault, because no policy that we know has them."""
RELATED = 0.2
"""Correlation between responses to positions and to velocities from which their relative sign is clear."""


@dataclass(frozen=True)
class PolicyFinding:
    """The result of one check of a diagnosis."""

    check: str
    status: str
    """`ok`, `fault`, or `unclear` if it cannot be inferred from the network, or a person must judge it."""
    fact: str
    numbers: Mapping[str, float]
    valid: str = ""
    """The valid values, in words."""
    advice: str = ""

    def __str__(self) -> str:
        valid = [f"valid: {self.valid}"] if self.valid else []
        advice = [f"-> {self.advice}"] if self.advice else []
        return paragraph(self.status, [f"{self.check}: {self.fact}", *valid, *advice])


@dataclass(frozen=True)
class Diagnosis:
    """All findings about a policy."""

    policy: str
    findings: tuple[PolicyFinding, ...]

    @property
    def passed(self) -> bool:
        """Whether no finding is a fault."""
        return all(finding.status != "fault" for finding in self.findings)

    def __str__(self) -> str:
        count = {status: sum(f.status == status for f in self.findings) for status in ("fault", "unclear")}
        end = f"{count['fault']} faults in {len(self.findings)} checks, {count['unclear']} that you must judge"
        return "\n".join([self.policy, *map(str, self.findings), end])


def diagnose(policy: Artifact, robot: str | Path | None = None) -> Diagnosis:
    """Probe an adopted policy; `robot` is an MJCF file with its joints' names, ranges and torque limits.

    Raises:
        ContractError: The policy was not adopted.
        SamiError: The robot's model cannot be read.
    """
    network = PolicyNetwork(policy)
    responses = ProbedNetwork(network)
    joints = None if robot is None else read_joints(Path(robot))
    findings = [
        *_numbers(responses),
        *_inputs(responses),
        *_joint_order(responses),
        *_signs(responses),
        *([] if joints is None else _robot(network.recipe.action, joints)),
        *_torques(responses, joints or {}),
    ]
    return Diagnosis(policy.contract.name, tuple(findings))


def _numbers(responses: ProbedNetwork) -> Iterator[PolicyFinding]:
    """Check the outputs at extreme inputs and at those of a standing robot."""
    network, recipe = responses.network, responses.network.recipe
    bound, rng = recipe.clip or LARGE, np.random.default_rng(1)
    extreme = {
        name: bound * np.concatenate([np.ones((1, width)), -np.ones((1, width)), rng.choice([-1.0, 1.0], (62, width))])
        for name, width in network.widths.items()
    }
    outputs = network.answer(extreme)
    if not np.isfinite(outputs).all():
        bad = int((~np.isfinite(outputs)).any(1).sum())
        fact = f"{bad} of {len(outputs)} inputs of size {bound:g} give NaN or infinity"
        yield PolicyFinding(
            "extreme inputs", "fault", fact, {"inputs": bad}, "finite outputs", "Give the recipe a smaller clip."
        )
        return
    largest, usual = float(np.abs(outputs).max()), float(np.abs(responses.outputs).max())
    numbers = {"largest": largest, "usual": usual}
    fact = f"inputs of size {bound:g} give outputs up to {largest:.3g}; a standing robot gives up to {usual:.3g}"
    if recipe.action.clip is None and largest > 10 * max(usual, 1.0):
        valid, advice = "a bound on outputs", "Give action.clip, or limits to the gate."
        yield PolicyFinding("extreme inputs", "unclear", fact, numbers, valid, advice)
    else:
        yield PolicyFinding("extreme inputs", "ok", fact, numbers)
    clip = recipe.action.clip
    share = float((np.abs(responses.outputs) >= 0.99 * clip).mean()) if clip else 0.0
    whole = np.concatenate(list(responses.jacobian.values()), axis=2)  # (POINTS, A, elements of all terms)
    flat = float((np.abs(whole).max((0, 2)) < 1e-7).mean())
    fact = f"{share:.0%} of the outputs of a standing robot are at the clip, {flat:.0%} do not respond at all"
    status = "fault" if share + flat > 0.5 else "ok"
    advice = "Check the scales of the recipe; the inputs are too large for the network." if status == "fault" else ""
    valid = "less than half" if advice else ""
    yield PolicyFinding("saturation", status, fact, {"clipped": share, "flat": flat}, valid, advice)


def _inputs(responses: ProbedNetwork) -> Iterator[PolicyFinding]:
    """Check which inputs have no effect on the outputs; a command is moved over its whole range."""
    size = {name: np.sqrt((block**2).mean((0, 1))) for name, block in responses.jacobian.items()}
    most = max(float(value.max()) for value in size.values())
    dead: list[str] = []
    for term in responses.terms:
        if term.quantity == "command":
            yield _command(responses, term)
        else:
            dead += [
                f"{term.name}.{name}" for name, s in zip(term.elements, size[term.name], strict=True) if s < DEAD * most
            ]
    total = sum(len(term.elements) for term in responses.terms if term.quantity != "command")
    if dead:
        fact = f"{len(dead)} of {total} elements change nothing: {', '.join(dead[:8])}" + (" ..." * (len(dead) > 8))
        advice = (
            "Training may have left them out; or their slices are wrong. Compare with the training's configuration."
        )
        yield PolicyFinding("dead inputs", "unclear", fact, {"dead": len(dead)}, "each element has an effect", advice)
    else:
        yield PolicyFinding("dead inputs", "ok", f"all {total} elements change the outputs", {"dead": 0})


def _command(responses: ProbedNetwork, term: ProbedTerm) -> PolicyFinding:
    usual = float(np.sqrt((responses.outputs**2).mean()))
    effects = []
    for element in range(len(term.elements)):
        change = responses.outputs_at(term, element, 1.0) - responses.outputs_at(term, element, -1.0)
        effects.append(float(np.sqrt((change**2).mean())) / max(usual, 1e-9))
    numbers = dict(zip(term.elements, effects, strict=True))
    weakest = sorted(numbers, key=lambda name: numbers[name])
    listed = ", ".join(f"{name} {numbers[name]:.2g}" for name in weakest[:6]) + " ..." * (len(weakest) > 6)
    check, least = f"command {term.name}", numbers[weakest[0]]
    fact = f"over its range it changes the outputs, in parts of their size, by {listed}"
    if least >= WEAK:
        return PolicyFinding(check, "ok", fact, numbers)
    ignored = [name for name in weakest if numbers[name] < IGNORED]
    fact = f"the policy ignores {', '.join(ignored[:6])}: {fact}" if ignored else fact
    advice = "Check the slice and scale of the command, and whether the policy was trained with it."
    return PolicyFinding(check, "fault" if ignored else "unclear", fact, numbers, f"at least {WEAK:g}", advice)


def _strength(block: Array) -> Array:
    """Return (A, n): the log of how strongly outputs respond to elements, normalised over rows and columns."""
    size = np.abs(block).mean(0) + 1e-12
    normed = size / size.mean(1, keepdims=True) / size.mean(0, keepdims=True)
    return np.asarray(np.log(normed))


def _by_joint(responses: ProbedNetwork) -> tuple[list[ProbedTerm], Array, float] | None:
    """Return the joints' terms, the strength (A, n) of outputs' responses to joints, and `share`; or None.

    `share` of the outputs respond most to their own joint. None if fewer than 4 joints are observed.
    """
    names = responses.network.recipe.action.elements
    terms = [
        t for q in ("joint_positions", "joint_velocities") for t in responses.of(q) if len(t.elements) == len(names)
    ]
    if len(names) < 4 or not terms:
        return None
    strength = np.sum(
        [_strength(responses.jacobian[t.name]) * (1 + (t.quantity != "joint_positions")) for t in terms], 0
    )
    declared = [list(terms[0].elements).index(name) if name in terms[0].elements else -1 for name in names]
    return terms, strength, float((strength.argmax(1) == declared).mean())


def _joint_order(responses: ProbedNetwork) -> Iterator[PolicyFinding]:
    """Compare the order of joint signals with that of the action, by the joint to which each output responds most."""
    names = responses.network.recipe.action.elements
    by_joint = _by_joint(responses)
    if by_joint is None:
        return
    terms, strength, share = by_joint
    nearest = strength.argmax(1)
    numbers = {"declared": share, "chance": 1 / len(names)}
    fact = f"{share:.0%} of the outputs respond most to their own joint (chance: {1 / len(names):.0%})"
    other, better = max(
        ((label, float((nearest == order).mean())) for label, order in _other_orders(names, terms[0].elements).items()),
        key=lambda entry: entry[1],
        default=("", 0.0),
    )
    if better >= max(CLEAR, share + MARGIN):
        fact = f"{fact}, but {better:.0%} if {other}"
        advice = "Correct `elements` of the joint signals, or the code that fills them."
        yield PolicyFinding("joint order", "fault", fact, numbers | {"other": better}, "the action's order", advice)
    elif share >= CLEAR + numbers["chance"]:
        yield PolicyFinding("joint order", "ok", fact, numbers)
    elif (pairs := _decisive(strength)).mean() >= CLEAR + numbers["chance"]:
        listed = ", ".join(f"{names[i]} responds to {terms[0].elements[nearest[i]]}" for i in np.flatnonzero(pairs)[:6])
        advice = "Correct `elements` of the joint signals, or the code that fills them."
        fact = f"{fact}, and {pairs.mean():.0%} to another one, with a clear lead: {listed}"
        yield PolicyFinding("joint order", "fault", fact, numbers, "the action's order", advice)
    else:
        advice = "It cannot be inferred from this network: compare with training, or audit a log."
        yield PolicyFinding("joint order", "unclear", fact, numbers, f"{CLEAR + numbers['chance']:.0%} or more", advice)


def _decisive(strength: Array) -> NDArray[np.bool_]:
    """Return the mask (A,) of outputs with a joint such that each responds to the other far more than to the rest."""
    nearest, back = strength.argmax(1), strength.argmax(0)
    rows, columns = (np.diff(np.sort(values, axis=1)[:, -2:])[:, 0] > DECISIVE for values in (strength, strength.T))
    return np.asarray((back[nearest] == np.arange(len(strength))) & rows & columns[nearest])


def _other_orders(names: tuple[str, ...], elements: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    """Return, for each usual mistake, the index (A,) that each of the action's joints would have in the signal."""

    def kind(name: str) -> str:
        return name.split("_", 1)[-1]

    def side(name: str) -> str:
        return name.split("_", 1)[0]

    orders = {
        "left and right are swapped": [other_side(name) for name in elements],
        "front and rear are swapped": [other_end(name) for name in elements],
        "they are sorted by name": sorted(elements),
        "they are grouped by joint type": sorted(elements, key=lambda n: [kind(m) for m in elements].index(kind(n))),
        "they are grouped by leg": sorted(elements, key=lambda n: [side(m) for m in elements].index(side(n))),
        "they are reversed": list(reversed(elements)),
    }
    return {
        label: np.array([order.index(name) for name in names])
        for label, order in orders.items()
        if tuple(order) != elements and sorted(order) == sorted(names)
    }


def _signs(responses: ProbedNetwork) -> Iterator[PolicyFinding]:
    for term in responses.of("gravity"):
        if len(term.elements) == 3:
            points = dict(responses.points)
            points[term.input] = points[term.input].copy()
            points[term.input][:, term.columns[2]] *= -1
            usual, turned = (
                float(np.sqrt((o**2).mean())) for o in (responses.outputs, responses.network.answer(points))
            )
            ratio = turned / max(usual, 1e-9)
            fact = f"upside down, the outputs are {ratio:.2g} times as large as upright (gravity 0, 0, -1)"
            status = "ok" if ratio > CALMER else "fault" if ratio < 1 / CALMER else "unclear"
            advice = {
                "fault": "This network expects gravity 0, 0, 1 upright; give the term the scale -1.",
                "unclear": "The sign cannot be inferred: compare with training, or audit a log.",
            }.get(status, "")
            yield PolicyFinding(
                "sign of gravity", status, fact, {"ratio": ratio}, f"more than {CALMER:g}" * (status != "ok"), advice
            )
    positions, velocities = responses.of("joint_positions"), responses.of("joint_velocities")
    if not positions or not velocities or positions[0].elements != velocities[0].elements:
        return
    q, dq = (responses.jacobian[terms[0].name].mean(0) for terms in (positions, velocities))
    weight = np.linalg.norm(q, axis=0) * np.linalg.norm(dq, axis=0)
    related = float((q * dq).sum() / max(float(weight.sum()), 1e-12))
    fact = f"responses to joint velocities resemble those to joint positions, {related:+.2f} (-1 to 1)"
    status = "ok" if related > RELATED else "fault" if related < -RELATED else "unclear"
    advice = {
        "fault": "The sign of the velocities, or of the positions, is wrong: damping would add energy.",
        "unclear": "The sign of the velocities cannot be inferred: audit a log.",
    }.get(status, "")
    valid = "" if status == "ok" else f"more than {RELATED:+g}"
    yield PolicyFinding("sign of velocities", status, fact, {"resemblance": related}, valid, advice)
    yield from _sides(responses, velocities[0])


def _sides(responses: ProbedNetwork, velocities: ProbedTerm) -> Iterator[PolicyFinding]:
    """Check the signs of joints: left and right respond to their own velocity with one sign, whatever their axes."""
    names, elements = responses.network.recipe.action.elements, list(velocities.elements)
    pairs = [(name, other_side(name)) for name in names if name in elements]
    pairs = [(name, other) for name, other in pairs if other in names and other in elements and name < other]
    if not pairs:
        return
    block = responses.jacobian[velocities.name]
    largest = np.abs(block).mean(0).max(1)

    def own_response(name: str) -> float:
        output = names.index(name)
        return float(block[:, output, elements.index(name)].mean() / max(largest[output], 1e-12))

    sides = {(name, other): (own_response(name), own_response(other)) for name, other in pairs}
    doubt = {pair: min(map(abs, ends)) for pair, ends in sides.items() if ends[0] * ends[1] < 0.0}
    listed = [
        f"{name} {sides[name, other][0]:+.2g} and {other} {sides[name, other][1]:+.2g}"
        for (name, other), size in sorted(doubt.items(), key=lambda item: -item[1])
        if size > MIRRORED
    ]
    numbers = {"pairs": len(listed)}
    if not listed:
        fact = f"of {len(pairs)} pairs of joints none responds to its own velocity with opposite signs"
        yield PolicyFinding("sign of single joints", "ok", fact, numbers)
        return
    by_joint = _by_joint(responses)
    clear = by_joint is not None and by_joint[2] >= CLEAR + 1 / len(names) and max(doubt.values()) > ONE_SIDED
    status = "fault" if clear else "unclear"
    fact = f"left and right respond to their own velocity with opposite signs: {', '.join(listed[:4])}"
    advice = "Compare the sign of these joints' positions and velocities with training, or audit a log."
    yield PolicyFinding("sign of single joints", status, fact, numbers, "the same sign", advice)


@dataclass(frozen=True)
class ModelJoint:
    """A joint of the robot's model."""

    low: float
    high: float
    """Range [rad or m]; infinite if there is none."""
    effort: float
    """Largest torque or force [N m or N]; infinite if there is none."""


def read_joints(path: Path) -> dict[str, ModelJoint]:
    """Return the joints of an MJCF file by name, without the suffix `_joint`; SamiError if it cannot be read."""
    import mujoco

    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        line = " ".join(str(error).split())[:300]
        raise SamiError(f"{path} cannot be read: {line}. Give the MJCF of the robot.") from None
    joints: dict[str, ModelJoint] = {}
    for index in range(model.njnt):
        joint: Any = model.joint(index)
        limits = [np.inf]
        if model.jnt_actfrclimited[index]:
            limits.append(float(np.abs(model.jnt_actfrcrange[index]).max()))
        for motor in np.flatnonzero(model.actuator_trnid[:, 0] == index):
            gear = abs(float(model.actuator_gear[motor, 0]))
            if model.actuator_forcelimited[motor]:
                limits.append(gear * float(np.abs(model.actuator_forcerange[motor]).max()))
            elif model.actuator_ctrllimited[motor] and model.actuator_biastype[motor] == mujoco.mjtBias.mjBIAS_NONE:
                limits.append(
                    gear * float(model.actuator_gainprm[motor, 0] * np.abs(model.actuator_ctrlrange[motor]).max())
                )
        low, high = model.jnt_range[index] if model.jnt_limited[index] else (-np.inf, np.inf)
        joints[_plain(joint.name)] = ModelJoint(float(low), float(high), min(limits))
    return joints


def _plain(name: str) -> str:
    return name.removesuffix("_joint")


def _robot(action: ActionTerm, joints: Mapping[str, ModelJoint]) -> Iterator[PolicyFinding]:
    """Compare joint names and the default pose with the robot."""
    names = [_plain(name) for name in action.elements]
    missing = [name for name in names if name not in joints]
    if missing:
        fact = f"the robot has no joint {', '.join(missing[:8])}; it has {', '.join(filter(None, joints))}"
        advice = "Name the elements of the action as the robot's joints."
        yield PolicyFinding(
            "joints of the robot", "fault", fact, {"missing": len(missing)}, "the robot's names", advice
        )
        return
    order = [name for name in joints if name in names]
    same = "the same order" if order == names else "another order, so map by name"
    yield PolicyFinding("joints of the robot", "ok", f"has all {len(names)} joints, in {same}", {"missing": 0})
    pose = row(action.default, len(names))
    outside = [
        f"{name} {value:.3g} (range {joints[name].low:.3g} to {joints[name].high:.3g})"
        for name, value in zip(names, pose, strict=True)
        if not joints[name].low - 1e-3 <= value <= joints[name].high + 1e-3
    ]
    if outside:
        fact = f"the default pose is outside the range of {', '.join(outside[:6])}"
        advice = "Check order, sign and unit of action.default."
        yield PolicyFinding("default pose", "fault", fact, {"outside": len(outside)}, "inside the ranges", advice)
    else:
        yield PolicyFinding("default pose", "ok", "is inside the joints' ranges", {"outside": 0})


def _torques(responses: ProbedNetwork, joints: Mapping[str, ModelJoint]) -> Iterator[PolicyFinding]:
    """Check the gains: compare the torques that a standing robot's outputs demand with the torque limits."""
    action = responses.network.recipe.action
    names = [_plain(name) for name in action.elements]
    size = len(names)
    effort = (
        row(action.effort, size)
        if action.effort
        else np.array([joints[n].effort if n in joints else np.inf for n in names])
    )
    if action.kp is None or not np.isfinite(effort).any():
        missing = "gains (action.kp)" if action.kp is None else "torque limits"
        advice = "Give action.kp and action.effort, or --robot."
        yield PolicyFinding("torques", "unclear", f"{missing} are not known", {}, "", advice)
        return
    gain = row(action.kp, size) * np.abs(row(action.scale, size))
    usual = gain * np.quantile(np.abs(responses.outputs), 0.9, axis=0) / effort
    most = gain * (action.clip or np.inf) / effort
    worst = int(usual.argmax())
    numbers = {"usual": float(usual.max()), "at the clip": float(most.max()) if action.clip else -1.0}
    fact = (
        f"a standing robot's targets demand up to {usual[worst]:.0%} of the torque limit, at {action.elements[worst]}"
    )
    if usual[worst] > SATURATED:
        advice = "Check the unit and order of action.kp, the action's scale and the effort."
        status = "fault" if usual[worst] > UNPHYSICAL else "unclear"
        yield PolicyFinding("torques", status, fact, numbers, "less than 100%", advice)
    else:
        fact += f"; outputs at the clip demand {most.max():.3g} times the limit" if action.clip else ""
        yield PolicyFinding("torques", "ok", fact, numbers)
    if action.kd is not None:
        swapped = (row(action.kd, size) > row(action.kp, size)) & (row(action.kp, size) > 0)
        if swapped.any():
            name = action.elements[int(swapped.argmax())]
            fact = f"kd is larger than kp at {int(swapped.sum())} joints, first at {name}"
            yield PolicyFinding(
                "gains", "fault", fact, {"joints": int(swapped.sum())}, "kd below kp", "Are they swapped?"
            )
