"""The files of a fit: the model with the fitted numbers, and a TOML file that draws tasks from their intervals."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.files import tomllib
from sami_train.studies.fit_robot.body import CHANGES, HINGE, RobotBody, read_spec
from sami_train.studies.fit_robot.fit import FittedParameter, FittedRobot

LEAST_SPREAD = 0.02
"""Least half width of a range, as a fraction of its value: no model is more accurate."""
NO_DELAY_S = 1e-4
"""Largest delay that counts as none [s]."""
_TITLE = "\n# What sami fit-robot found: ranges as wide as the 95 % intervals.\n"
_TABLES = r"^\[(?:features|tasks\..+)\.{}\]\n(?:(?:sets|scales|of|low|high) = .*\n)+\n?"
"""Pattern of the tables that an earlier fit wrote for a feature."""
_MODEL = re.compile(r"^[ \t]*(model|\"model\"|'model')[ \t]*=.*$", re.MULTILINE)


def fitted_model(body: RobotBody, result: FittedRobot, folder: Path) -> str:
    """Return the XML of the robot's model with the fitted numbers, for a file in `folder`.

    A bias changes the joint's `ref`, so that positions are encoder readings. A delay becomes that of all actuators.
    """
    spec = read_spec(body.xml)
    for fit in result.parameters:
        value, field = fit.value, fit.parameter.field
        if fit.verdict == "not identifiable":
            continue
        if field == "delay":
            samples = math.ceil(_span(fit)[1] / spec.option.timestep) + 2
            for actuator in spec.actuators:
                actuator.delay, actuator.nsample = (value, samples) if fit.high > NO_DELAY_S else (0.0, 0)
        elif field == "strength":
            actuator = spec.actuator(fit.parameter.of)
            actuator.gainprm, actuator.biasprm = actuator.gainprm * value, actuator.biasprm * value
            actuator.forcerange = actuator.forcerange * value
        elif field == "bias":
            joint = spec.joint(fit.parameter.of)
            shift = math.degrees(value) if spec.compiler.degree and joint.type == HINGE else value
            joint.ref, joint.springref = joint.ref + shift, joint.springref + shift
        else:
            joint = spec.joint(fit.parameter.of)
            numbers = np.array(getattr(joint, field), float)  # a damping may be a polynomial
            numbers.flat[0] = value
            setattr(joint, field, numbers if numbers.ndim else value)
    for folder_of, assets in (("meshdir", (*spec.meshes, *spec.hfields)), ("texturedir", spec.textures)):
        if any(getattr(asset, "file", "") for asset in assets):
            place = body.xml.parent / getattr(spec, folder_of)
            setattr(spec, folder_of, os.path.relpath(place.resolve(), folder.resolve()))
    spec.modelfiledir = str(folder)
    spec.compile()
    return str(spec.to_xml())


def training_document(body: RobotBody, result: FittedRobot, model: Path) -> str:
    """Return the TOML text of an environment whose tasks draw the identified parameters from their intervals.

    It extends the robot's own TOML file, and replaces the features of an earlier fit. Without such a file, it is new.

    Raises:
        SamiError: The robot's own file has a form that cannot be extended.
    """
    ranges = [fit for fit in result.parameters if fit.parameter.field in CHANGES and fit.verdict != "not identifiable"]
    lines = [_TITLE]
    if body.path.suffix == ".toml":
        text = body.path.read_text(encoding="utf-8")
        sets = list(tomllib.loads(text)["tasks"])
        begin = _MODEL.sub(lambda _: f"model = {json.dumps(model.name)}", text, count=1).replace(_TITLE, "")
        for fit in ranges:
            begin = re.sub(_TABLES.format(fit.parameter.key), "", begin, flags=re.MULTILINE)
    else:
        rate = 1.0 / (body.steps * body.model.opt.timestep)
        begin = f"model = {json.dumps(model.name)}\nrate_hz = {rate:.9g}\nepisode_steps = 200\n"
        sets = ["training"]
    for fit in ranges:
        change, key, (low, high) = fit.parameter.feature, fit.parameter.key, _span(fit)
        if fit.parameter.field == "delay" and high <= NO_DELAY_S:
            continue
        of = json.dumps(change.of)
        lines += [f"[features.{key}]", f'{"scales" if change.scales else "sets"} = "{change.field}"', f"of = {of}", ""]
        for name in sets:
            key_text = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
            lines += [f"[tasks.{key_text}.{key}]", f"low = {low:.6g}", f"high = {high:.6g}", ""]
    document = begin.rstrip("\n") + "\n" + "\n".join(lines)
    try:
        tables = tomllib.loads(document)
    except ValueError:
        tables = {}
    if tables.get("model") != model.name or not all(isinstance(tables["tasks"][name], dict) for name in sets):
        raise SamiError(
            f"{body.path} cannot take the fitted ranges. Write `model = ...` in a line of its own, and [features] and "
            "each set, [tasks.training], as a table of lines: not as a list, nor in braces."
        )
    return document


def _span(fit: FittedParameter) -> tuple[float, float]:
    """Return the range from which training draws; a strength is relative to that of the fitted model."""
    least = LEAST_SPREAD * abs(fit.value)
    low, high = max(fit.parameter.low, min(fit.low, fit.value - least)), max(fit.high, fit.value + least)
    return (low / fit.value, high / fit.value) if fit.parameter.field == "strength" else (low, high)
