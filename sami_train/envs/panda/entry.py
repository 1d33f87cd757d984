"""Panda's entry in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


_PANDA_OFFSET = {"observation": 0, "achieved_goal": 19, "desired_goal": 22}
