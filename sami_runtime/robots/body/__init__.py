"""Limits of the body: joints, points and shapes of a robot, which apply whatever the policy's action means."""

from sami_runtime.robots.body.body import BodyLimits, BodyRuling
from sami_runtime.robots.body.gate import BodyGate
from sami_runtime.robots.body.settings import BodySettings

__all__ = ["BodyGate", "BodyLimits", "BodyRuling", "BodySettings"]
