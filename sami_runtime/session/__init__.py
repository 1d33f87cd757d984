"""A policy, stepped: its state, its inference, and what its contexts tell."""

from sami_runtime.session.memory import SessionState
from sami_runtime.session.session import Session, Step

__all__ = ["Session", "SessionState", "Step"]
