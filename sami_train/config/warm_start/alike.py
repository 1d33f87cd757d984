"""Are the signals of a policy or a recording those of an environment?"""

from __future__ import annotations

from collections.abc import Mapping

from sami_train.envs.spec import EnvironmentSpec


def flat_signals(spec: EnvironmentSpec) -> dict[str, int]:
    """Return the signals' sizes by name, in the order in which they lie in the flat observation."""
    names = sorted((signal.name for signal in spec.signals), key=lambda name: spec.layout.columns(name).start)
    sizes = {signal.name: signal.size for signal in spec.signals}
    return {name: sizes[name] for name in names}


def unlike(observation: Mapping[str, int], actions: int, spec: EnvironmentSpec) -> str:
    """Return how other signals differ from those of an environment, for a message; empty where they do not.

    Args:
        observation: sizes by name.
        actions: size of the action.
        spec: the environment.
    """
    signals_here = flat_signals(spec)
    differences = [
        f"{name} {observation.get(name, 'missing')} instead of {signals_here.get(name, 'none')}"
        for name in {**observation, **signals_here}
        if observation.get(name) != signals_here.get(name)
    ]
    if actions != spec.action.size:
        differences.append(f"{actions} actions instead of {spec.action.size}")
    return ", ".join(differences)
