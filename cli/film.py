"""A GIF of a policy at work: the scene, the hidden task, and the context as bars."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

    from sami_runtime.loop.tick import StepRecord

BAR = 16
"""Width of one context bar, in pixels."""
HEIGHT = 24.0
"""Height of the bar of the largest number so far, in pixels."""
HOLD = 12
"""Frames for which an image at the goal is repeated."""
FRAMES_HZ = 25.0
"""Largest number of frames per second."""
SECONDS = 10.0
"""Filmed part of an episode, from its start [s]."""


class Film:
    """Collects frames, and writes them as a GIF."""

    def __init__(self, path: Path, rate_hz: float, commanded: bool = False) -> None:
        self.path, self._rate, self._commanded = path, rate_hz, commanded
        self._every = max(1, round(rate_hz / FRAMES_HZ))
        self.frames: list[Image] = []
        self._largest = 1e-6

    def is_due(self, record: StepRecord) -> bool:
        """Return whether to film this step; False before the first executed action."""
        return bool(record.info) and record.step % self._every == 0 and record.step < SECONDS * self._rate

    def add(self, image: np.ndarray, record: StepRecord, ret: float) -> None:
        """Add a frame: an image (H, W, 3) uint8, with task, context and outcome of this step, and the return so far."""
        from PIL import Image, ImageDraw

        from sami_runtime.model.atlas import text_of
        from sami_runtime.signals import number_in

        frame = Image.fromarray(image)
        draw = ImageDraw.Draw(frame)
        values = record.info.get("task")
        values = values if isinstance(values, Mapping) else {}
        task = "   ".join(f"{name} {text_of(value)}" for name, value in values.items())
        skill = str(record.info.get("skill", f"return {ret:.0f}")).replace("_and_", " & ")
        success, note = bool(number_in(record.info, "is_success")), "   (hidden from the policy)"
        if self._commanded:
            success, note, skill = False, "", f"error {number_in(record.info, 'tracking_error') or 0.0:.2f}"
        draw.rectangle((0, 0, frame.width, 22), fill=(20, 20, 24))
        draw.text((8, 5), task + note, fill=(235, 235, 235))
        draw.text(
            (frame.width - 120, 5),
            "reached the goal" if success else skill,
            fill=(120, 230, 140) if success else (240, 200, 90),
        )
        base = frame.height - 34
        self._largest = max([self._largest, *map(abs, record.context.tolist())])
        for i, value in enumerate(record.context):
            left = 10 + i * (BAR + 4)
            height = HEIGHT * float(value) / self._largest
            draw.rectangle((left, base - max(height, 0.0), left + BAR, base - min(height, 0.0)), fill=(80, 160, 240))
        if len(record.context):
            draw.text((10, frame.height - 60 - 12), "context", fill=(120, 120, 130))
        self.frames += [frame] * (HOLD if success else 1)

    def save(self) -> None:
        """Write the GIF, if there are frames."""
        from sami_runtime.files import output

        if not self.frames:
            return
        first, *rest = [frame.quantize(64) for frame in self.frames]
        with output(self.path) as temporary:
            first.save(
                temporary,
                format="GIF",
                save_all=True,
                append_images=rest,
                duration=round(1000 * self._every / self._rate),
                loop=0,
                optimize=True,
            )


def film_of(render: str | None, dry_run: bool) -> tuple[str | None, Callable[[Path], Path] | None]:
    """Return Gymnasium's render mode, and a function from a model to the path of its film; None without a film."""
    from sami_runtime.errors import SamiError, UnknownName

    if render is None or render == "human":
        return render, None
    if render != "gif" and Path(render).suffix != ".gif":
        raise UnknownName("renderer", render, ["gif", "human"], "Or name the file of a film, NAME.gif.")
    if dry_run:
        raise SamiError("dry_run=true moves nothing that could be filmed; leave out --render gif.")
    return "rgb_array", lambda model: _writable(Path(f"{model.stem}.gif" if render == "gif" else render))


def _writable(path: Path) -> Path:
    """Return the path if a film can be written there; raise SamiError if not."""
    from sami_runtime.errors import SamiError

    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise SamiError(f"cannot write {path}; --render takes NAME.gif in a folder that exists and may be written to.")
    if path.exists():
        raise SamiError(f"{path} exists; choose another name with --render, or remove it.")
    return path
