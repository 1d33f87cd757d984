"""What a run knows of its contrastive loss: whether there was one, and what it reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

WINDOW = 100
"""Losses that are averaged over: the bound of a single batch says little."""

NOTHING = 0.01
"""A mean bound up to this says that the loss learns nothing [nats]; a constant encoder has 0."""


class ContrastRecord:
    """A window over the last losses, and the share of the last attempts that had one.

    Args:
        patience: losses in a row that may teach nothing before the contrast has ended; 0 is without end.
    """

    def __init__(self, patience: int = 0) -> None:
        self.patience = patience
        self.in_vain = 0
        """Losses in a row, up to the last, around which the mean bound was at most `NOTHING`."""
        self._bounds: deque[float] = deque(maxlen=WINDOW)
        self._log_k: deque[float] = deque(maxlen=WINDOW)
        self._attempts: deque[bool] = deque(maxlen=WINDOW)

    @property
    def ended(self) -> bool:
        """Whether the loss taught nothing for so long that there is no more of it."""
        return 0 < self.patience <= self.in_vain

    def to_dict(self) -> dict[str, Any]:
        """Return the windows, and what was in vain, as JSON has them."""
        windows: dict[str, Iterable[float]] = {"bounds": self._bounds, "log_k": self._log_k, "attempts": self._attempts}
        return {name: list(window) for name, window in windows.items()} | {"in_vain": self.in_vain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], patience: int = 0) -> ContrastRecord:
        """Return the record that `to_dict` wrote."""
        record = cls(patience)
        record.in_vain = plain.get("in_vain", 0)
        record._bounds.extend(plain["bounds"])
        record._log_k.extend(plain["log_k"])
        record._attempts.extend(map(bool, plain["attempts"]))
        return record

    def add(self, scalars: Mapping[str, Tensor | float]) -> None:
        """Take what an update with a contrastive loss returned; nothing in it where there was nothing to compare."""
        self._attempts.append("contrast_bound" in scalars)
        if self._attempts[-1]:
            self._bounds.append(float(scalars["contrast_bound"]))
            self._log_k.append(float(scalars["contrast_log_k"]))
            self.in_vain = self.in_vain + 1 if self._teaches_nothing else 0

    @property
    def _teaches_nothing(self) -> bool:
        return len(self._bounds) == WINDOW and float(np.mean(self._bounds)) <= NOTHING

    @property
    def bound(self) -> float | None:
        """Mean of the estimator over the last losses [nats]; None before the first."""
        return float(np.mean(self._bounds)) if self._bounds else None

    @property
    def k(self) -> float | None:
        """Mean number of samples K that a loss compared; None before the first."""
        return float(np.mean(np.exp(self._log_k))) if self._log_k else None

    @property
    def share(self) -> float | None:
        """Share of the last attempts that had something to compare; None before the first."""
        return float(np.mean(self._attempts)) if self._attempts else None

    def scalars(self) -> dict[str, float]:
        """Return what a log keeps: `contrast/bound` [nats], `contrast/k`, `contrast/share`, or `contrast/ended`."""
        if self.ended:
            return {"contrast/ended": 1.0}
        scalars = {"bound": self.bound, "k": self.k, "share": self.share}
        return {f"contrast/{name}": value for name, value in scalars.items() if value is not None}

    def summary(self) -> str:
        """Return a short text for the progress line; empty before the first attempt."""
        if self.ended:
            return f"contrast ended: {self.patience} losses taught nothing"
        if self.share is None:
            return ""
        if self.bound is None or self.k is None or self.share == 0.0:
            return "contrast: nothing to compare yet"
        few = f", {1.0 - self.share:.0%} had nothing to compare" if self.share < 0.95 else ""
        verdict = " (learns nothing)" if self._teaches_nothing else ""
        return f"contrast {self.bound:.2f} nats of {np.log(self.k):.2f}{verdict}{few}"
