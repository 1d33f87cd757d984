"""Environments, registered with Gymnasium on import."""

from gymnasium.envs.registration import register

from sami_train.envs.catalog import ENVIRONMENTS, environment
from sami_train.envs.spec import EnvironmentSpec

for _spec in ENVIRONMENTS.values():
    register(
        id=_spec.id,
        entry_point=_spec.entry_point,
        vector_entry_point=_spec.vector_entry_point,
        kwargs=dict(_spec.arguments),
        max_episode_steps=_spec.episode_steps,
        disable_env_checker=True,
    )

__all__ = ["ENVIRONMENTS", "EnvironmentSpec", "environment"]
