"""A user's module with robots that stand still; each factory makes a robot that violates, or meets, another rule."""

import json
from pathlib import Path

ROBOT = '''
import numpy as np

from sami_runtime import Executed, Observation
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION


class Still:
    """Every sensor says 0.1, and every action is written to a file."""

    observation, action = PANDA_OBSERVATION, PANDA_ACTION

    def __init__(self, clock, offset=0.0):
        self.clock, self.offset = clock, offset

    def reset(self, seed=None):
        pass

    def read(self):
        values = {signal.name: np.full(signal.size, 0.1, np.float32) for signal in self.observation}
        return Observation(values, self.clock.now() + self.offset)

    def write(self, action):
        with open("written.txt", "a") as file:
            print(*action, file=file)
        return Executed(action.copy())

    def stop(self):
        with open("stopped.txt", "a") as file:
            print("stop", file=file)

    def close(self):
        pass


def make(clock):
    return Still(clock)


def far(clock):
    robot = Still(clock)
    near = robot.read

    def read():
        observation = near()
        observation.values["ee_position"][0] += 0.6
        return observation

    robot.read = read
    return robot


def wall_clock(clock):
    import time

    return Still(clock, time.time() - clock.now())


def settled(clock, config, *, contract):
    return Still(clock, config["offset"] + 0 * contract.rate_hz)


def preset(clock, config={"offset": 0.0}):
    return Still(clock, config["offset"])


class Retreat:
    def __init__(self, clock, **settings):
        with open("retreat.txt", "w") as file:
            print(*sorted(settings), file=file)

    def reset(self):
        pass

    def act(self, observation, now):
        return [0.25, 0.0, 0.0, 0.0]


class Dying(Still):
    """Its sensors are fine until the fifth read, and for ever old from then on."""

    reads = 0

    def read(self):
        self.reads += 1
        self.offset = 0.0 if self.reads < 5 else -1.0
        return super().read()


def fails(clock):
    raise OSError("no such bus: can0")


def unfinished(clock):
    return object()
'''


def driving(adapter="my_robot:make", model="panda-satesac", **keys):
    """Write a robot's file into the current folder, and return the command's arguments that drive the robot."""
    robot = {"version": 1, "adapter": adapter, "model": str(model), **keys}
    Path("robot.json").write_text(json.dumps(robot), encoding="utf-8")
    return "drive", "robot.json"
