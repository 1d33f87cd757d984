"""Does a configuration suit its environment? What an environment lacks, no value can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sami_train.envs.scales import standardised
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import label
from sami_train.methods.methods import method

if TYPE_CHECKING:
    from sami_train.config.schema import TrainConfig


LEAST_COMPARED = 4
"""Episodes of a task of which a contrastive loss can make two sides: two queries, and something to tell them from."""
LONGER = 10
"""How many times as long as the environment's own an episode to learn from may be: a slow robot takes its time."""


def misfit(config: TrainConfig, spec: EnvironmentSpec) -> str | None:
    """Return the first thing in a configuration that does not suit its environment, in a sentence; None if all does."""
    env, collection, learning = config.env, config.collection, config.learning
    if config.new_tasks and (chosen := method(config.method)).estimator is not None:
        return (
            f"collection.draws is 0, and {chosen.title} compares episodes of one task with one another: give it "
            "a number of tasks to learn from, or take a method without a contrastive loss, e.g. tesac."
        )
    known = () if config.new_tasks else spec.tasks.training_tasks(collection.draws, config.seed)
    if len(set(collection.tasks)) < len(collection.tasks) or not set(collection.tasks) <= set(range(len(known))):
        numbered = ", ".join(f"{number} ({label(task)})" for number, task in enumerate(known))
        return (
            f"collection.tasks is {list(collection.tasks)}; it must list training tasks of {env} by number, "
            f"each once. There are {numbered or 'none, since each episode draws a new one'}."
        )
    tasks = 0 if config.new_tasks else len(config.training_tasks())
    if method(config.method).estimator is not None and learning.buffer_episodes < LEAST_COMPARED * tasks:
        return (
            f"learning.buffer_episodes is {learning.buffer_episodes}, and {env} has {tasks} training tasks: with fewer "
            f"than {LEAST_COMPARED} episodes of each, {config.method} has nothing to compare. Set "
            f"learning.buffer_episodes to at least {LEAST_COMPARED * tasks} (contrast.trajectories in full need "
            f"{config.contrast.trajectories * tasks}), or take fewer tasks by collection.tasks."
        )
    if collection.episode_steps > (most := LONGER * spec.episode_steps):
        return (
            f"collection.episode_steps is {collection.episode_steps}; an episode of {env} has "
            f"{spec.episode_steps} steps, so give one from 1 to {most}, or 0 for all of them."
        )
    if spec.goal is None:
        cost_to_go = {
            "learning.hindsight": learning.hindsight > 0,
            "learning.clip_targets": learning.clip_targets,
            "collection.end_on_fall": collection.end_on_fall,
        }
        if wrong := [key for key, on in cost_to_go.items() if on]:
            return (
                f"{', '.join(wrong)}: for environments with goals, and {env} has none. "
                "Leave them as its presets have them: 0, false and false."
            )
    elif collection.end_on_fall and "end_on_fall" not in spec.training_options:
        return (
            f"collection.end_on_fall is true, and {env} has no fall that could end an episode. "
            "Set collection.end_on_fall=false."
        )
    if config.exploration.reach_episodes and spec.reach is None:
        return (
            f"exploration.reach_episodes is {config.exploration.reach_episodes}, and {env} has no scripted "
            "reach. Set exploration.reach_episodes=0."
        )
    if learning.reward_offset and spec.ends_early:
        return (
            f"learning.reward_offset is {learning.reward_offset}, and episodes of {env} end early: it would "
            "change what is worth ending them for. Set learning.reward_offset=0."
        )
    return _misfit_dynamics(config, spec) or _misfit_behind_gap(config, spec)


def _misfit_dynamics(config: TrainConfig, spec: EnvironmentSpec) -> str | None:
    weight, chosen = config.learning.aux_dynamics, method(config.method)
    if not weight:
        return None
    if chosen.encoder not in ("lstm", "gaussians"):
        return (
            f"learning.aux_dynamics is {weight}, and {chosen.title} infers no context that could carry the task. Set "
            "it to 0, or take another --method, e.g. satesac."
        )
    if config.new_tasks:
        return (
            f"learning.aux_dynamics is {weight} and collection.draws 0: it learns from a number of training tasks. "
            "Give collection.draws one."
        )
    if not standardised(spec.tasks.features, config.training_tasks()).size:
        return (
            f"learning.aux_dynamics is {weight}, and the training tasks of {config.env} do not differ by any feature "
            "that a context could carry. Set it to 0."
        )
    return None


def _misfit_behind_gap(config: TrainConfig, spec: EnvironmentSpec) -> str | None:
    behind, chosen = config.behind_gap, method(config.method)
    if behind.true_goals and spec.goal is None:
        return f"behind_gap.true_goals is true, and {config.env} has no goal; leave it false."
    if behind.estimate > 0 and chosen.encoder != "lstm":
        return (
            f"behind_gap.estimate is {behind.estimate}, and only an LSTM encoder estimates the present, which "
            f"{chosen.title} has not. Set behind_gap.estimate=0, or take another --method, e.g. satesac."
        )
    if behind.full_from and not config.gap:
        return f"behind_gap.full_from is {behind.full_from}, and there is no gap that could grow. Give one by --gap."
    if behind.spared and not config.gap:
        return f"behind_gap.spared is {behind.spared}, and there is no gap to be spared. Give one by --gap."
    if behind.keeps_truth and config.collection.recordings:
        return (
            "collection.recordings do not tell the true state, which behind_gap.true_goals, true_critic and estimate "
            "learn from. Leave the recordings or these switches out."
        )
    return None
