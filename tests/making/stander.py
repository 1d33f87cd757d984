"""A box on four legs in MuJoCo, and a foreign policy that holds its stance, for tests of `sami play`."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sami_runtime.adoption.adopt import adopt_in_process, read_policy

LEGS = ("FL", "FR", "RL", "RR")
LEG = """
    <body name="{name}" pos="{x} {y} 0">
      <joint name="{name}_joint" axis="0 1 0" range="-1.5 1.5" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.02" mass="0.2"/>
    </body>"""
XML = """<mujoco model="stander">
  <compiler angle="radian"/>
  <option timestep="0.003"/>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <freejoint/>
      <geom type="box" size="0.2 0.15 0.04" mass="2"/>{legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
  <sensor><framepos name="place" objtype="body" objname="trunk"/></sensor>
</mujoco>
"""
MOTORS = "".join(f'<motor joint="{leg}_joint" ctrlrange="-9 9"/>' for leg in LEGS)
RECIPE = """
name = "stander"
rate_hz = 50.0
episode_steps = 60
input = "obs"
output = "actions"

[[signals]]
name = "base_ang_vel"
unit = "rad/s"
elements = ["x", "y", "z"]
slice = [0, 3]
scale = 0.25

[[signals]]
name = "projected_gravity"
unit = "1"
elements = ["x", "y", "z"]
slice = [3, 6]
scale = 1.0

[[signals]]
name = "command"
unit = "m/s"
elements = ["vx", "vy", "wz"]
slice = [6, 9]
scale = 1.0
command = true

[[signals]]
name = "joint_pos"
unit = "rad"
elements = ["FL", "FR", "RL", "RR"]
slice = [9, 13]
scale = 1.0
offset = [0.1, 0.1, -0.1, -0.1]

[[signals]]
name = "joint_vel"
unit = "rad/s"
elements = ["FL", "FR", "RL", "RR"]
slice = [13, 17]
scale = 0.05

[last_action]
slice = [17, 21]
kind = "raw"

[action]
name = "joint_targets"
unit = "rad"
meaning = "position targets of the joints"
elements = ["FL", "FR", "RL", "RR"]
scale = 0.5
default = [0.1, 0.1, -0.1, -0.1]
kp = 40.0
kd = 1.0
"""


def mjcf(motors=MOTORS, more=""):
    """Return the MJCF model as text, with `more` added to its world."""
    places = ((0.15, 0.12), (0.15, -0.12), (-0.15, 0.12), (-0.15, -0.12))
    legs = "".join(LEG.format(name=leg, x=x, y=y) for leg, (x, y) in zip(LEGS, places, strict=True))
    return XML.format(legs=legs, motors=motors).replace("<worldbody>", f"<worldbody>{more}")


def stander(folder, recipe=RECIPE, size=21):
    """Write stander.xml and the adopted stander.onnx to a folder, and return both paths.

    The policy holds the default pose; a forward command spreads the legs, and at about 2 m/s the robot lies flat.
    """
    weights = np.zeros((size, 4), np.float32)
    weights[6] = [-1.5, -1.5, 1.5, 1.5]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "weights"], ["actions"])],
        "policy",
        [helper.make_tensor_value_info("obs", onnx.TensorProto.FLOAT, [1, size])],
        [helper.make_tensor_value_info("actions", onnx.TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    policy = folder / "policy.onnx"
    policy.write_bytes(model.SerializeToString())
    (folder / "recipe.toml").write_text(recipe)
    (folder / "stander.xml").write_text(mjcf())
    adopted = adopt_in_process(read_policy(policy, folder / "recipe.toml"), str(policy))
    (folder / "stander.onnx").write_bytes(adopted.model_bytes)
    return folder / "stander.xml", folder / "stander.onnx"
