"""The five methods: the same SAC, buffer and budget, another encoder (PEARL) or another contrastive loss."""

from __future__ import annotations

from dataclasses import dataclass

from sami_runtime.errors import UnknownName
from sami_train.episodes.numpy_policy import EncoderKind
from sami_train.methods.estimators import INFO_NCE, SA_INFO_NCE, SANCE, Estimator


@dataclass(frozen=True)
class Method:
    """One method of the paper (section 5.1)."""

    name: str
    """Name on the command line."""
    title: str
    """Name in the paper."""
    encoder: EncoderKind = "lstm"
    estimator: Estimator | None = None
    """What its contrastive loss estimates; None has no such loss."""
    least_tasks: int = 1
    """How many tasks an environment must have for it."""


METHODS = {
    method.name: method
    for method in (
        Method("pearl", "PEARL", encoder="gaussians"),
        Method("tesac", "TESAC"),
        Method("ccm", "CCM", estimator=INFO_NCE, least_tasks=2),
        Method("satesac", "SaTESAC", estimator=SANCE),
        Method("saccm", "SaCCM", estimator=SA_INFO_NCE),
    )
}


def method(name: str) -> Method:
    """Look a method up by its name.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    return METHODS[name]
