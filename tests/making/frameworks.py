"""Folders with policies in the formats of other frameworks, with made-up numbers."""

from __future__ import annotations

from pathlib import Path

from tests.making.foreign import feed_forward

JOINTS = ["FL_hip_joint", "FR_hip_joint", "FL_calf_joint", "FR_calf_joint"]
ISAAC_SIZE = 3 + 3 + 3 + 4 + 4 + 4

ENV = """\
viewer:
  eye: !!python/tuple
  - 7.5
  - 7.5
  - 7.5
sim:
  dt: 0.005
  gravity: !!python/tuple
  - 0.0
  - 0.0
  - -9.81
decimation: 4
scene:
  robot:
    class_type: isaaclab.assets.articulation.articulation:Articulation
    init_state:
      joint_pos:
        .*L_hip_joint: 0.1
        .*R_hip_joint: -0.1
        .*_calf_joint: -1.5
      joint_vel:
        .*: 0.0
    actuators:
      base_legs:
        class_type: isaaclab.actuators.actuator_pd:DCMotor
        joint_names_expr:
        - .*_hip_joint
        - .*_calf_joint
        effort_limit: 23.5
        stiffness: 25.0
        damping:
          .*_hip_joint: 0.5
          .*_calf_joint: 0.7
observations:
  policy:
    concatenate_terms: true
    enable_corruption: true
    history_length: null
    base_ang_vel:
      func: isaaclab.envs.mdp.observations:base_ang_vel
      params: {}
      modifiers: null
      noise: &id001
        n_min: -0.2
      clip: !!python/tuple
      - -1.0
      - 1.0
      scale: 0.25
      history_length: 0
    projected_gravity:
      func: isaaclab.envs.mdp.observations:projected_gravity
      noise: *id001
      clip: null
      scale: null
      history_length: 0
    velocity_commands:
      func: isaaclab.envs.mdp.observations:generated_commands
      params:
        command_name: base_velocity
      clip: null
      scale: null
      history_length: 0
    joint_pos:
      func: isaaclab.envs.mdp.observations:joint_pos_rel
      params:
        asset_cfg:
          name: robot
          joint_names: null
          joint_ids: !!python/object/apply:builtins.slice
          - null
          - null
          - null
      clip: null
      scale: null
      history_length: 0
    joint_vel:
      func: isaaclab.envs.mdp.observations:joint_vel_rel
      params: {}
      clip: null
      scale: 0.05
      history_length: 0
    actions:
      func: isaaclab.envs.mdp.observations:last_action
      params: {}
      clip: null
      scale: null
      history_length: 0
  critic: null
actions:
  joint_pos:
    class_type: isaaclab.envs.mdp.actions.joint_actions:JointPositionAction
    asset_name: robot
    clip: null
    joint_names:
    - .*
    scale:
      .*_hip_joint: 0.125
      .*_calf_joint: 0.25
    offset: 0.0
    preserve_order: false
    use_default_offset: true
episode_length_s: 20.0
commands:
  base_velocity:
    class_type: isaaclab.envs.mdp.commands.velocity_command:UniformVelocityCommand
    ranges:
      lin_vel_x: !!python/tuple
      - -1.0
      - 1.5
      lin_vel_y: !!python/tuple
      - -0.5
      - 0.5
      ang_vel_z: !!python/tuple
      - -1.0
      - 1.0
      heading: null
"""
AGENT = """\
experiment_name: quadruped_flat
clip_actions: 3.0
obs_groups:
  actor:
  - policy
"""
DESCRIPTORS = """\
actions:
- action_type: JointAction
  full_path: isaaclab.envs.mdp.actions.joint_actions.JointPositionAction
  joint_names: [FL_hip_joint, FR_hip_joint, FL_calf_joint, FR_calf_joint]
  name: joint_position_action
articulations:
  robot:
    default_joint_stiffness: [0.0, 0.0, 0.0, 0.0]
"""
DEPLOY = """\
joint_ids_map: [2, 0, 3, 1]
step_dt: 0.02
stiffness: [10.0, 11.0, 12.0, 13.0]
damping: [0.1, 0.2, 0.3, 0.4]
default_joint_pos: [0.1, -0.1, -1.5, -1.6]
commands:
  base_velocity:
    ranges:
      lin_vel_x: [-0.5, 1.0]
      lin_vel_y: [-0.3, 0.3]
      ang_vel_z: [-0.2, 0.2]
      heading: null
actions:
  JointPositionAction:
    clip: null
    joint_names: [.*]
    scale: [0.25, 0.25, 0.5, 0.5]
    offset: [0.1, -0.1, -1.5, -1.6]
    joint_ids: !!python/object/apply:builtins.slice [null, null, null]
observations:
  base_ang_vel:
    params: {}
    clip: null
    scale: [0.2, 0.2, 0.2]
    history_length: 2
  velocity_commands:
    params: {command_name: base_velocity}
    clip: null
    scale: [1.0, 1.0, 1.0]
    history_length: 1
  joint_pos_rel:
    params: {}
    clip: [-2.0, 2.0]
    scale: [1.0, 1.0, 1.0, 1.0]
    history_length: 2
  last_action:
    params: {}
    clip: null
    scale: [1.0, 1.0, 1.0, 1.0]
    history_length: 1
"""
RL_SAR = """\
robot/walk:
  model_name: "policy.onnx"
  num_observations: 21
  observations: ["commands", "ang_vel", "gravity_vec", "dof_pos", "dof_vel", "actions"]
  observations_history: []
  observations_history_priority: "time"
  clip_obs: 5.0
  clip_actions_lower: [-3.0, -3.0, -3.0, -3.0]
  clip_actions_upper: [3.0, 3.0, 3.0, 3.0]
  rl_kp: [20.0, 21.0, 22.0, 23.0]
  rl_kd: [0.5, 0.5, 0.5, 0.5]
  num_of_dofs: 4
  action_scale: [0.125, 0.125, 0.25, 0.25]
  wheel_indices: []
  lin_vel_scale: 2.0
  ang_vel_scale: 0.25
  dof_pos_scale: 1.0
  dof_vel_scale: 0.05
  commands_scale: [2.0, 2.0, 0.25]
  torque_limits: [33.5, 33.5, 33.5, 33.5]
  default_dof_pos: [0.1, -0.1, -1.5, -1.6]
  joint_mapping: [1, 0, 3, 2]
"""
RL_SAR_BASE = """\
robot:
  dt: 0.005
  decimation: 4
  default_dof_pos: [9.0, 9.0, 9.0, 9.0]
  joint_names: ["FR_hip_joint", "FL_hip_joint", "FR_calf_joint", "FL_calf_joint"]
  joint_mapping: [0, 1, 2, 3]
"""
UNITREE_GYM = """\
policy_path: "{LEGGED_GYM_ROOT_DIR}/deploy/pre_train/robot/motion.pt"
xml_path: "{LEGGED_GYM_ROOT_DIR}/resources/robots/robot/scene.xml"
simulation_dt: 0.002
control_decimation: 10
kps: [100, 101, 102, 103]
kds: [2, 2, 2, 4]
default_angles: [-0.1, 0.0, 0.3, -0.2]
ang_vel_scale: 0.25
dof_pos_scale: 1.0
dof_vel_scale: 0.05
action_scale: 0.25
cmd_scale: [2.0, 2.0, 0.25]
num_actions: 4
num_obs: 23
cmd_init: [0.5, 0, 0]
"""
UNITREE_GYM_REAL = UNITREE_GYM.replace("simulation_dt: 0.002\ncontrol_decimation: 10", "control_dt: 0.02").replace(
    "cmd_init: [0.5, 0, 0]", "max_cmd: [0.8, 0.5, 1.57]\nleg_joint2motor_idx: [6, 7, 8, 9]"
)
LEAPP = """\
models:
  Reach:
    inputs:
    - name: robot_joint_pos
      dtype: float32
      shape: [1, 4]
      type: tensor
      kind: state/joint/position
      element_names: [[FL_hip_joint, FR_hip_joint, FL_calf_joint, FR_calf_joint]]
      isaaclab_connection: state:robot:joint_pos
    - name: robot_root_ang_vel_b
      dtype: float32
      shape: [1, 3]
      type: tensor
      kind: state/body/angular_velocity
      element_names: [[x, y, z]]
      isaaclab_connection: state:robot:root_ang_vel_b
    - name: raw_actions_in
      dtype: float32
      shape: [1, 4]
      type: tensor
    outputs:
    - name: robot_joint_pos_target
      dtype: float32
      shape: [1, 4]
      type: tensor
      kind: target/joint/position
      element_names: [[FL_hip_joint, FR_hip_joint, FL_calf_joint, FR_calf_joint]]
      isaaclab_connection: write:robot:set_joint_position_target_index
    - name: raw_actions_out
      dtype: float32
      shape: [1, 4]
      type: tensor
    parameters:
      model_path: Reach.onnx
      backend: onnx

pipeline:
  configs:
    frequency: 50.0
  data_flow: {}
  feedback_flow:
    Reach/raw_actions_out: [Reach/raw_actions_in]
  initial_values: Reach_initial_values.safetensors
  inputs:
    Reach: [robot_joint_pos, robot_root_ang_vel_b]
  outputs:
    Reach: [robot_joint_pos_target]

system information:
  leapp version: 0.7.2
"""


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files by their paths in a folder, and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def policy(size: int, actions: int = 4) -> bytes:
    return feed_forward(size, actions).SerializeToString()


def isaaclab(folder: Path, env: str = ENV, described: bool = False, size: int = ISAAC_SIZE) -> Path:
    files = {"params/env.yaml": env, "params/agent.yaml": AGENT, "exported/policy.onnx": policy(size)}
    return write_files(folder, files | ({"params/robot_IO_descriptors.yaml": DESCRIPTORS} if described else {}))


def unitree_lab(folder: Path, deploy: str = DEPLOY) -> Path:
    return write_files(folder, {"params/deploy.yaml": deploy, "exported/policy.onnx": policy(6 + 3 + 8 + 4)})


def rl_sar(folder: Path, config: str = RL_SAR, size: int = 21) -> Path:
    files = {"robot/base.yaml": RL_SAR_BASE, "robot/walk/config.yaml": config, "robot/walk/policy.onnx": policy(size)}
    return write_files(folder, files) / "robot" / "walk"


def unitree_gym(folder: Path, config: str = UNITREE_GYM) -> Path:
    return write_files(folder, {"robot.yaml": config, "policy.onnx": policy(23)})
