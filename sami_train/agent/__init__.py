"""The agent: a context encoder and a soft actor-critic policy, their losses and their optimisers."""

from sami_train.agent.context_sac import ContextSAC

__all__ = ["ContextSAC"]
