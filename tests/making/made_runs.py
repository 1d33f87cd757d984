"""Evaluated run folders with made-up results, for tests that read runs."""

import json

from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.evaluation.evaluate import in_turn
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.runs.folder import RunFolder

STEPS = 550_000


def made_run(path, method="satesac", seed=0, success=0.9, steps=STEPS, episodes=100, floor=0.08, **overrides):
    """Write a finished run and return its path.

    Args:
        path: the folder.
        method: the method.
        seed: the seed.
        success: success in every task, or a function of (task set, task).
        steps: environment steps that it took.
        episodes: evaluation episodes per task.
        floor: share of episodes that were solved at their start.
        overrides: configuration by key, with `__` for a dot.
    """
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    config = resolve("fast-cpu", {"method": method, "seed": seed, **values})
    run = RunFolder.create(path, config, ["sami", "train", "--out", path.name])
    run.update(state="finished", steps=steps, updates=steps // 16, seconds=600.0, git={"commit": "c" * 40})
    rows = [{"step": steps * i // 10, "rollout/success": 0.1 * i} for i in range(1, 11)]
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    score_of = success if callable(success) else lambda task_set, task: success
    results = [
        TaskResult(name, dict(task), episodes, 20.0, score_of(name, task), floor, shares={"lifted": 0.5})
        for name, tasks in PANDA_TASKS.sets.items()
        for task in tasks
    ]
    run.keep_evaluation(Evaluation("panda", tuple(results)).to_dict(), steps)
    return path


def made_return_run(path, env="hopper", method="satesac", seed=0, ret=None, steps=STEPS, episodes=12):
    """Write a finished run like `made_run`, in an environment that is judged by the return; return its path.

    Args:
        ret: maps (task set, number of the episode) to the return.
        path, env, method, seed, steps, episodes: see `made_run`; `episodes` counts per set.
    """
    return_of = ret or (lambda task_set, episode: 1000.0 + episode)
    config = resolve("fast-cpu", {"env": env, "method": method, "seed": seed})
    run = RunFolder.create(path, config, ["sami", "train", "--env", env, "--out", path.name])
    run.update(state="finished", steps=steps, updates=steps // 16, seconds=600.0, git={"commit": "c" * 40})
    rows = [
        {"step": steps * i // 10, "time/seconds": 60.0 * i, "rollout/success": 0.0, "rollout/ep_rew_mean": 500.0 * i}
        for i in range(1, 11)
    ]
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = []
    for name, tasks in environment(env).tasks.sets.items():
        turns = in_turn(len(tasks), episodes, 0)
        for index, task in enumerate(tasks):
            returns = tuple(return_of(name, k) for k in range(episodes) if turns[k] == index)
            if returns:
                mean = sum(returns) / len(returns)
                results.append(TaskResult(name, dict(task), len(returns), 1000.0, ret=mean, returns=returns))
    run.keep_evaluation(Evaluation(env, tuple(results)).to_dict(), steps)
    return path
