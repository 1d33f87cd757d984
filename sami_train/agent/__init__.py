"""The agent: a context encoder, a policy, and how both learn."""

from sami_train.agent.context_sac import ContextSAC

__all__ = ["ContextSAC"]
