r"""Films two policies of the Go2 side by side when a motor dies after 4 s, in one of the episodes of go2_walks.py.

    python benchmarks/go2_film.py go2-walk.onnx models/go2-student.onnx --titles "public policy" go2-student \
        --out docs/pictures/go2-dies.webp

Both walk through all episodes of `dies`: the same starts, commands and motors as in the table. The film shows the first
episode in which the left robot falls and the right one does not; the script prints in how many that is so, and in how
many it is the other way round. The motor that died is red.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from go2_walks import DEATH_STEP, EPISODES, NOMINAL, SEED, SETS, Robots, deployed
from PIL import Image, ImageDraw, ImageFont

from sami_train.envs.go2.entry import GO2, MOTORS
from sami_train.envs.go2.env import Go2Env
from sami_train.studies.contexts.change_film import GAP, GROUND, HOLD_S, INK, NEW, QUIET, TITLE
from sami_train.studies.contexts.film_camera import SIDE_VIEW, FilmCamera

SIZE = 380, 260
"""Size of each robot's picture [pixels]."""
NEAR = 1.7
"""Distance of the camera from the trunk [m]."""
EVERY = 4
"""Environment steps between two pictures."""
BEFORE, AFTER, FALLING = 75, 150, 25
"""Steps shown before the motor dies, after it at least, and how long a robot that has fallen still moves."""


class Walked(NamedTuple):
    """The robots' motion in all episodes."""

    fall_steps: np.ndarray
    """Number of steps until each robot fell, (n,); the length of an episode for robots that did not fall."""
    qpos: np.ndarray
    """Positions after each step, (T, n, 19) float32."""
    commands: np.ndarray
    """Commands, (T, n, 3)."""


def walk(policy: Path, episodes: int) -> Walked:
    """Run a model file through the episodes of `dies`, as go2_walks.py does."""
    tasks = SETS["dies"]
    rows = len(tasks) * math.ceil(episodes / len(tasks))
    batch, act = Robots(rows, 1.0), deployed(policy, "live")(rows)
    observation = batch.reset(range(SEED, SEED + rows), [NOMINAL] * rows)
    fall_steps, places, commands = np.full(rows, GO2.episode_steps), [], []
    for step in range(GO2.episode_steps):
        if step == DEATH_STEP:
            for row in range(rows):
                batch.set_dynamics(row, tasks[row % len(tasks)])
        commands.append(batch.walks.command.copy())
        observation, _ = batch.step(act(observation, batch, step, DEATH_STEP))
        fall_steps[batch.terminated & (fall_steps == GO2.episode_steps)] = step + 1
        places.append(batch._qpos.astype(np.float32))
    return Walked(fall_steps, np.array(places), np.array(commands))


def pictures(walked: Walked, row: int, steps: range) -> list[np.ndarray]:
    """Render one episode; a fallen robot lies still after half a second, since its episode is over."""
    env = Go2Env()
    env.reset(seed=0, options={"task": NOMINAL})
    env.model.vis.map.shadowclip = 3.0  # with the default, the floor is speckled
    SIDE_VIEW["distance"] = NEAR
    camera = FilmCamera(env.model, env.data, SIZE)
    env.model.geom_rgba[env.model.geom("payload").id, 3] = 0.0
    dead = SETS["dies"][row % len(SETS["dies"])]["crippled"][0]
    of_motor = env.model.geom_bodyid == env.model.body(MOTORS[dead]).id
    images = []
    for step in steps:
        env.data.qpos[:] = walked.qpos[min(step, walked.fall_steps[row] + FALLING, GO2.episode_steps - 1), row]
        mujoco.mj_forward(env.model, env.data)
        if step >= DEATH_STEP:
            env.model.geom_rgba[of_motor] = 0.9, 0.1, 0.1, 1.0
        images.append(camera.take().copy())
    camera.close()
    return images


def frame(
    pictures: list[np.ndarray], titles: list[str], fall_steps: list[int], step: int, motor: str, command: str
) -> Image.Image:
    """Compose the image of a step."""
    title, small = ImageFont.load_default(17), ImageFont.load_default(14)
    image = Image.new("RGB", (2 * SIZE[0] + GAP, TITLE + SIZE[1] + 26), GROUND)
    draw = ImageDraw.Draw(image)
    for k, picture in enumerate(pictures):
        left = k * (SIZE[0] + GAP)
        image.paste(Image.fromarray(picture), (left, TITLE))
        draw.text((left + 10, 10), titles[k], INK, title)
        if step >= fall_steps[k]:
            draw.text(
                (left + SIZE[0] - 10, 12), f"fell after {fall_steps[k] / GO2.rate_hz:.1f} s", NEW, small, anchor="ra"
            )
    notice = f"motor {motor} is dead" if step >= DEATH_STEP else "all motors obey"
    below = TITLE + SIZE[1] + 13
    draw.text((10, below), notice, NEW if step >= DEATH_STEP else QUIET, small, anchor="lm")
    draw.text((image.width - 10, below), f"{step / GO2.rate_hz:.1f} s, command {command}", QUIET, small, anchor="rm")
    return image


def main() -> None:
    """Walk, choose the episode and film it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs=2, help="model files, left and right")
    parser.add_argument("--titles", nargs=2, required=True, help="above the pictures")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--out", type=Path, required=True, help="NAME.webp")
    options = parser.parse_args()
    left, right = (walk(policy, options.episodes) for policy in options.policies)
    fallen = [walked.fall_steps < GO2.episode_steps for walked in (left, right)]
    only_left, only_right = fallen[0] & ~fallen[1], fallen[1] & ~fallen[0]
    print(f"only left falls: {only_left.sum()}, only right falls: {only_right.sum()}, episodes: {len(only_left)}")
    rows = np.flatnonzero(only_left & (left.fall_steps > DEATH_STEP))
    if not len(rows):
        parser.error("there is no episode to film: in none does the left robot alone fall after its motor died.")
    row = int(rows[0])
    motor = MOTORS[SETS["dies"][row % len(SETS["dies"])]["crippled"][0]]
    print(f"filmed: episode {row}, motor {motor}, left falls after {left.fall_steps[row] / GO2.rate_hz:.2f} s")
    last = min(max(DEATH_STEP + AFTER, int(left.fall_steps[row]) + 2 * FALLING), GO2.episode_steps)
    steps = range(DEATH_STEP - BEFORE, last, EVERY)
    images = [pictures(walked, row, steps) for walked in (left, right)]
    frames = []
    for k, step in enumerate(steps):
        forward, sideways, turn = left.commands[step, row]
        command = f"{forward:+.1f}, {sideways:+.1f} m/s, {turn:+.1f} rad/s"
        pair, fall_steps = [of_robot[k] for of_robot in images], [int(left.fall_steps[row]), int(right.fall_steps[row])]
        frames.append(frame(pair, options.titles, fall_steps, step, motor, command))
    durations = [round(1000 * EVERY / GO2.rate_hz)] * len(frames)
    durations[-1] += round(1000 * HOLD_S)
    frames[0].save(
        options.out, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=55, method=4
    )
    print(f"{options.out}: {len(frames)} pictures, {options.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
