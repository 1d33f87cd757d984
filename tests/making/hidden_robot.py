"""Robots whose motors differ from their model, and recordings of their excitation by the project's own recorder."""

from typing import NamedTuple

import mujoco
import numpy as np
from onnx import helper

from sami_runtime.clock import ManualClock
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.excitation import Excitation
from sami_runtime.run import Run
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from tests.sami_runtime.conftest import contract_of, model_of, sign

JOINTS = ("base", "shoulder", "elbow")
MODEL = """<mujoco model="arm">
  <compiler autolimits="true"/>
  <option timestep="0.005" integrator="implicitfast"/>
  <default>
    <joint damping="0.2" armature="0.02" frictionloss="0.1"/>
    <geom type="capsule" size="0.03" density="800" contype="0" conaffinity="0"/>
  </default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="base" axis="0 0 1"/>
      <geom fromto="0 0 0 0 0 0.1"/>
      <geom type="box" size="0.08 0.05 0.03"/>
      <body pos="0 0 0.1">
        <joint name="shoulder" axis="0 1 0"/>
        <geom fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0">
          <joint name="elbow" axis="0 1 0"/>
          <geom fromto="0 0 0 0.25 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>ACTUATORS</actuator>
</mujoco>
"""
MOTORS = {"position": 'kp="20" kv="0.5" forcerange="-20 20"', "motor": 'gear="10"'}
ROBOT = """model = "NAME.xml"
rate_hz = 50
episode_steps = 100
[features.fitted_load]
scales = "dof_damping"
[tasks.training]
fitted_load = [1.0]
[[reward]]
alive = true
weight = 1.0
"""


def nominal_arm(folder, kind="position", name="robot"):
    """Write an arm's nominal model and its TOML file; return the path of the TOML file."""
    actuators = "".join(f'<{kind} name="{joint}" joint="{joint}" ctrlrange="-1 1" {MOTORS[kind]}/>' for joint in JOINTS)
    (folder / f"{name}.xml").write_text(MODEL.replace("ACTUATORS", actuators))
    (folder / f"{name}.toml").write_text(ROBOT.replace("NAME", name))
    return folder / f"{name}.toml"


class Hidden(NamedTuple):
    """Parameters missing from a robot's nominal model, by joint; `delay` [s] is the same for all."""

    armature: dict
    damping: dict
    frictionloss: dict
    strength: dict
    bias: dict
    delay: float

    def numbers(self):
        """Return the parameters by (field, joint or actuator); the delay has the name `""`."""
        tables = {name: getattr(self, name) for name in self._fields if name != "delay"}
        return {(field, of): v for field, table in tables.items() for of, v in table.items()} | {
            ("delay", ""): self.delay
        }


def draw_hidden(joints, seed, times=1.0, bias=0.05):
    """Draw hidden parameters; `times` scales armature, damping and friction from those of the arm here."""
    rng = np.random.default_rng(seed)

    def sample(low, high):
        return {joint: float(rng.uniform(low, high)) for joint in joints}

    return Hidden(
        sample(0.01 * times, 0.06 * times),
        sample(0.1 * times, 0.6 * times),
        sample(0.05 * times, 0.4 * times),
        sample(0.7, 1.2),
        sample(-bias, bias),
        float(rng.integers(0, 9)) * 0.005,
    )


def hide(nominal, hidden, name="hidden"):
    """Write a robot that has the hidden parameters; return the path of its TOML file."""
    spec = mujoco.MjSpec.from_file(str(nominal.with_suffix(".xml")))
    for joint in spec.joints:
        if joint.name in hidden.armature:
            joint.armature, joint.frictionloss = hidden.armature[joint.name], hidden.frictionloss[joint.name]
            joint.damping = [hidden.damping[joint.name], 0, 0] if np.ndim(joint.damping) else hidden.damping[joint.name]
            joint.ref = np.degrees(hidden.bias[joint.name]) if spec.compiler.degree else hidden.bias[joint.name]
    for actuator in spec.actuators:
        strength = hidden.strength[actuator.name]
        actuator.gainprm, actuator.biasprm = actuator.gainprm * strength, actuator.biasprm * strength
        actuator.forcerange = actuator.forcerange * strength
        actuator.delay, actuator.nsample = hidden.delay, 12
    spec.compile()
    path = nominal.with_name(f"{name}.toml")
    path.with_suffix(".xml").write_text(spec.to_xml())
    path.write_text(nominal.read_text().replace(nominal.with_suffix(".xml").name, f"{name}.xml"))
    return path


class Zero:
    """A policy with an action of 0."""

    name, state, context_size = "zero", (), 0

    def __init__(self, signals, actions):
        self._inputs, self._size = [f"observation.{s.name}" for s in signals], sum(s.size for s in signals)
        self._actions = actions

    def nodes(self):
        return [
            helper.make_node("Concat", self._inputs, ["x"], axis=1),
            helper.make_node("MatMul", ["x", "W"], ["action"]),
        ]

    def initializers(self):
        return {"W": np.zeros((self._size, self._actions), np.float32)}


def still_model(robot, path):
    """Write a model file of the policy `Zero` for a robot, and return its path."""
    spec = environment(str(robot))
    policy = Zero(spec.signals, spec.action.size)
    contract = contract_of(
        policy, observation=spec.signals, action=spec.action, rate_hz=spec.rate_hz, episode_steps=spec.episode_steps
    )
    path.write_bytes(sign(model_of(policy, contract), contract))
    return path


def recorded(robot, path, episodes=9, steps=70, noise=0.0, seed=0, still=(), share=0.5):
    """Excite a robot, record it, and return the recording's path; limits keep the joints in `still` at 0."""
    model = still_model(robot, path.with_suffix(".onnx"))
    session, clock = Session.load(model), ManualClock()
    spec = environment(str(robot))
    bounds = {joint: 0.0 for joint in still}
    limits = Limits.of(
        {"rest": 0.0, "max_age_s": np.inf, **({"low": bounds, "high": bounds} if still else {})}, "limits"
    )
    noisy = {signal.name: noise * (1.0 if signal.unit == "rad" else 20.0) for signal in spec.signals}
    gap = GapProfile.of({"noise": noisy}) if noise else None
    pilot = Excitation(session.contract, limits, share=share, seed=seed)
    with Run(
        session,
        make_adapter(spec, make(spec), clock),
        clock,
        simulator=True,
        limits=limits,
        gap=gap,
        pilot=pilot,
        record=path,
    ) as run:
        for episode in range(episodes):
            run.episode(seed=100 * seed + episode, max_steps=steps)
    return path
