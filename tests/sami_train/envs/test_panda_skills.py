"""Skills as the physics shows them: scripted pushes, drags and lifts in the simulator (paper, appendix C.1)."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("panda_gym")
import sami_train.envs  # noqa: F401 (registers the environments)
from sami_train.envs.catalog import environment
from sami_train.envs.measure import episode_skill
from sami_train.envs.panda.skill import HALF_WIDTH

FINE_PHYSICS = True

OPEN, SHUT, STILL = 1.0, -1.0, 0.0
MASSES = (1.0, 5.0, 10.0)


@pytest.fixture(scope="module")
def env():
    instance = gym.make("sami/PandaSkill-v0").unwrapped
    yield instance
    instance.close()


class Arm:
    """Moves the hand to places beside the cube; keeps the label of each step by phase."""

    def __init__(self, env, mass, friction, seed=11):
        self.env, self.labels = env, {}
        self.observation, _ = env.reset(seed=seed, options={"task": {"mass": mass, "friction": friction}})

    @property
    def cube(self):
        return self.observation["achieved_goal"].copy()

    def go(self, phase, steps, gripper, place=(0.0, 0.0, 0.0), of=None):
        """Hold the hand so far from the cube, or from where the cube was."""
        for _ in range(steps):
            target = (self.cube if of is None else of) + place
            move = np.clip((target - self.observation["observation"][:3]) / 0.05, -1, 1)
            self.observation, _, _, _, info = self.env.step(np.array([*move, gripper], np.float32))
            self.labels.setdefault(phase, []).append(info["skill"])

    @property
    def episode(self):
        return episode_skill(
            {label for labels in self.labels.values() for label in labels}, environment("panda").skills
        )


def lift(env, mass, friction=1.0, rise=0.1):
    """Rise of the hand above the cube that it asks for in each step [m]."""
    arm = Arm(env, mass, friction)
    arm.go("above", 12, OPEN, (0, 0, 0.1))
    arm.go("down", 12, OPEN)
    arm.go("close", 8, SHUT)
    arm.go("lift", 12, SHUT, (0, 0, rise))
    return arm


def push(env, mass, friction, far=0.1):
    """A shut hand beside the cube moves through where it lies."""
    arm = Arm(env, mass, friction)
    start = arm.cube
    arm.go("beside, above", 12, SHUT, (0, -0.1, 0.1), start)
    arm.go("beside", 12, SHUT, (0, -0.1, 0), start)
    arm.go("push", 10, SHUT, (0, far, 0), start)
    return arm, float(np.linalg.norm(arm.cube[:2] - start[:2]))


@pytest.mark.parametrize("mass", MASSES)
def test_a_cube_lifted_between_both_fingers_is_pick_and_place(env, mass):
    # Ten kilograms slip where they are torn up.
    arm = lift(env, mass, rise=0.1 if mass < 10.0 else 0.02)
    assert set(arm.labels["lift"][3:]) == {"pick_and_place"}
    assert arm.episode == "pick_and_place"


def test_thirty_kilograms_are_too_heavy_to_lift(env):
    # Finger friction 0.5 x two fingers x 170 N carries 170 N; the cube weighs 294 N.
    assert "pick_and_place" not in {label for labels in lift(env, 30.0).labels.values() for label in labels}


@pytest.mark.parametrize("mass", [*MASSES, 30.0])
def test_a_cube_moved_along_the_table_by_a_shut_hand_is_a_push(env, mass):
    arm, distance = push(env, mass, 0.1)
    assert distance > 0.03
    assert arm.labels["push"].count("push") >= 2
    assert "pick_and_place" not in arm.labels["push"]
    assert arm.episode == "push"


def test_a_cube_held_and_dragged_along_the_table_is_a_push(env):
    arm = Arm(env, 1.0, 0.1)
    arm.go("above", 12, OPEN, (0, 0, 0.1))
    arm.go("down", 12, OPEN)
    arm.go("close", 8, SHUT)
    start = arm.cube
    arm.go("drag", 8, SHUT, (0, 0.1, 0), start)
    assert np.linalg.norm(arm.cube[:2] - start[:2]) > 0.05
    assert arm.labels["drag"].count("push") >= 3
    assert arm.episode == "push"


def test_a_cube_that_slides_on_is_still_pushed_and_one_that_came_to_rest_is_not(env):
    arm, _ = push(env, 1.0, 0.1)
    goal = arm.observation["observation"][:3].copy() + [0, 0, 0.2]
    arm.go("away", 40, SHUT, of=goal)
    labels = arm.labels["away"]
    assert labels[-1] == "other"
    assert "push" not in labels[labels.index("other") :]


def test_a_cube_that_nobody_touches_is_neither_pushed_nor_lifted(env):
    arm = Arm(env, 1.0, 1.0)
    arm.go("above", 12, OPEN, (0, 0, 0.15))
    assert set(arm.labels["above"]) == {"other"}
    assert arm.episode == "other"


def test_a_cube_in_the_air_that_nobody_holds_is_another_skill(env):
    env.reset(seed=0)
    env.sim.set_base_pose("object", np.array([0.1, 0.1, 0.3]), np.array([0.0, 0.0, 0.0, 1.0]))
    env.step(np.zeros(4, np.float32))
    assert env.skill() == "other"


@pytest.mark.parametrize(("lean", "label"), [(10.0, "other"), (45.0, "tip")])
def test_a_cube_that_stands_on_an_edge_is_tipped(env, lean, label):
    env.reset(seed=0)
    angle = np.radians(lean)
    height = HALF_WIDTH * (np.cos(angle) + np.sin(angle)) - 1e-4
    turn = np.array([np.sin(angle / 2), 0.0, 0.0, np.cos(angle / 2)])
    env.sim.set_base_pose("object", np.array([0.1, 0.1, height]), turn)
    env.sim.physics_client.performCollisionDetection()
    assert env.skill() == label


def test_a_cube_that_is_let_go_in_the_air_is_carried_no_longer(env):
    arm = lift(env, 1.0)
    hand = arm.observation["observation"][:3].copy()
    arm.go("release", 2, OPEN, of=hand)
    assert set(arm.labels["release"]) == {"other"}


def test_a_cube_with_one_finger_is_not_carried(env):
    # It rests on a finger of an open hand: off the table, higher than half its width, and not between both.
    arm = lift(env, 1.0)
    finger = env.sim.physics_client.getLinkState(env.sim._bodies_idx["panda"], int(env.robot.fingers_indices[0]))[0]
    arm.go("open", 3, OPEN, of=arm.observation["observation"][:3].copy())
    env.sim.set_base_pose("object", np.array(finger) + [0.0, 0.04, 0.0], np.array([0.0, 0.0, 0.0, 1.0]))
    env.sim.physics_client.performCollisionDetection()
    assert env.skill() == "other"
