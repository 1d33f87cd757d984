"""A pendulum whose runs write metrics every 400 steps, for tests that wait until a sweep's cell trains."""

from sami_train.runs import train
from tests.making.user_environments import PENDULUM

__all__ = ["PENDULUM"]

train.LOG_EVERY = 400
