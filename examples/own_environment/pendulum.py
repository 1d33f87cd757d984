"""Gymnasium's pendulum with hidden mass and length: `sami train --env pendulum:PENDULUM`."""

from sami_train.envs import EnvironmentSpec, Range, signal


def set_task(env, task):
    """Set mass [kg] and length [m] of the pendulum; called before each reset, and within an episode."""
    env.unwrapped.m, env.unwrapped.l = task["mass"], task["length"]


PENDULUM = EnvironmentSpec.from_gymnasium(
    "Pendulum-v1",
    tasks={
        "training": {"mass": Range(0.3, 1.2), "length": Range(0.3, 1.0)},  # ranges are drawn from; lists form a grid
        "moderate": {"mass": [0.28, 1.4], "length": [0.28, 1.1]},
        "extreme": {"mass": [0.25, 1.6], "length": [0.25, 1.25]},
    },
    set_task=set_task,
    set_dynamics=set_task,
    signals=[signal("direction", elements=["cos", "sin"]), signal("velocity", "rad/s")],
    action=signal("torque", "N m"),
    ends_early=False,
)
