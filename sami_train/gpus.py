"""The GPUs that this process may use."""

from __future__ import annotations

import os

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable by which CUDA is told which GPUs there are."""


def usable_gpus() -> tuple[str, ...]:
    """Return what CUDA calls the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` takes them."""
    import torch

    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return tuple(named[:count]) if named else tuple(str(number) for number in range(count))
