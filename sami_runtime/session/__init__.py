"""The stateful policy: recurrent state, inference, admission of model files, and telemetry of the context."""

from sami_runtime.session.memory import SessionState
from sami_runtime.session.session import Session, Step

__all__ = ["Session", "SessionState", "Step"]
