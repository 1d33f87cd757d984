"""What a policy does with motors that no training task let obey: its return with their outputs, and with 0 instead.

python benchmarks/unlearned_motors.py --env crippled-walker --model crippled-walker-satesac --motors 0,1,2
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np

from sami_runtime import Session
from sami_runtime.model.shipped import shipped_models
from sami_train.envs.catalog import environment


def returns(env: str, model: str, task_set: str, motors: list[int], silent: bool, episodes: int) -> list[float]:
    """Return the returns of some episodes; `silent` sends 0 to the motors."""
    spec = environment(env)
    world, session = gymnasium.make(spec.id, tasks=task_set), Session.load(shipped_models()[model])
    found = []
    for seed in range(episodes):
        observation, _ = world.reset(seed=seed)
        session.reset()
        total, over = 0.0, False
        while not over:
            action = np.array(session.step(spec.layout.by_name(observation)).action)
            action[motors] *= not silent
            observation, reward, _, over, _ = world.step(action)
            total += float(reward)
        found.append(total)
    return found


def main() -> None:
    """Print a line for each set of tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", required=True)
    parser.add_argument("--model", required=True, choices=sorted(shipped_models()))
    parser.add_argument("--motors", required=True, type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--episodes", type=int, default=20, help="in each set of tasks")
    given = parser.parse_args()
    print("set         its own outputs           0 instead")
    for name in environment(given.env).tasks.sets:
        own, silent = (
            returns(given.env, given.model, name, given.motors, silent, given.episodes) for silent in (False, True)
        )
        cells = (f"{np.mean(each):8,.0f} ± {np.std(each, ddof=1) / len(each) ** 0.5:5,.0f}" for each in (own, silent))
        print(f"{name:10}  {'      '.join(cells)}")


if __name__ == "__main__":
    main()
