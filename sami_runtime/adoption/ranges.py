"""Measures training ranges of a policy without its environment, from recordings or its framework's rollouts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.adoption.recipe import Recipe, SignalTerm, row
from sami_runtime.errors import SamiError
from sami_runtime.files import printable
from sami_runtime.model.contract import ADOPTED, Contract
from sami_runtime.model.training_ranges import Spread, TrainingRanges
from sami_runtime.recording.reader import are_finite, read_recording, require_interface

Array = NDArray[np.float32]
Rollout = dict[str, Array]
"""An episode: the values (T, size) of each signal and of the action, by name."""
DONES = "dones"
"""Name of the array of an `.npz` file that marks the last steps of episodes."""


def ranges_in(contract: Contract, paths: Sequence[Path]) -> TrainingRanges:
    """Return the statistics of a policy's signals in recordings (NAME.mcap) and rollouts (NAME.npz).

    A rollout has an array for each signal and the action, in the contract's units; or one for each input of the network
    and its output, by their names, which the recipe converts back. Arrays are (T, size), or (T, N, size) with N
    environments; `dones`, (T,) or (T, N), is not 0 at the last step of an episode.

    Raises:
        RecordingError, SamiError: A file cannot be read, lacks an array, or has one of another shape.
    """
    episodes: list[Rollout] = []
    for path in paths:
        episodes += _rollouts(path, contract) if path.suffix == ".npz" else _recorded(path, contract)
    if not episodes:
        raise SamiError(f"{', '.join(map(str, paths))} hold no step of a policy; give a longer recording or rollout.")
    names = [signal.name for signal in contract.observation]
    return TrainingRanges(
        measured=f"{len(episodes)} episodes of {', '.join(path.name for path in paths)}",
        steps=sum(len(episode[contract.action.name]) for episode in episodes),
        episodes=len(episodes),
        signals={
            name: Spread.of(np.concatenate([episode[name] for episode in episodes]))
            for name in (*names, contract.action.name)
        },
        begin={name: Spread.of(np.stack([episode[name][0] for episode in episodes])) for name in names},
    )


def _recorded(path: Path, contract: Contract) -> list[Rollout]:
    recording, names = read_recording(path), [signal.name for signal in contract.observation]
    require_interface(
        recording, (*contract.observation, contract.action), contract.rate_hz, f"policy {contract.name!r}"
    )
    episodes: dict[int, list[tuple[Observation, Array]]] = {}
    for number, stretch, _ in recording.stretches(are_finite):
        steps = episodes.setdefault(number, [])
        steps += [(r.observation, r.executed) for r in stretch if r.observation is not None and r.executed is not None]
    return [
        {
            **{name: np.stack([np.ravel(observation.values[name]) for observation, _ in steps]) for name in names},
            contract.action.name: np.stack([executed for _, executed in steps]),
        }
        for steps in episodes.values()
    ]


def _rollouts(path: Path, contract: Contract) -> list[Rollout]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SamiError(f"{path} cannot be read: {printable(str(error))}. Write it with numpy.savez.") from None
    sizes = {signal.name: signal.size for signal in (*contract.observation, contract.action)}
    recipe = None
    if not sizes.keys() <= arrays.keys() and ADOPTED in contract.training:
        recipe = Recipe.parse(contract.training[ADOPTED]["recipe"], contract.name)
        sizes = {name: max(term.slice[1] for _, term in terms) for name, terms in recipe.inputs.items()}
        sizes[recipe.output] = contract.action.size
    if missing := [name for name in sizes if name not in arrays]:
        signals = ", ".join(signal.name for signal in (*contract.observation, contract.action))
        raise SamiError(
            f"{path} lacks {', '.join(missing)}; it has {', '.join(arrays) or 'nothing'}. Give arrays called {signals}"
            + (f", or what the network read and answered: {', '.join(sizes)}." if recipe else ".")
        )
    values = {name: _by_environment(arrays[name], size, name, path) for name, size in sizes.items()}
    shapes = {array.shape[:2] for array in values.values()}
    if len(shapes) > 1:
        raise SamiError(f"{path}: its arrays differ in their steps or environments: {sorted(shapes)}. Correct it.")
    if recipe is not None:
        values = _before_the_network(values, recipe)
    return list(_episodes(values, arrays.get(DONES), shapes.pop(), path))


def _by_environment(array: NDArray[Any], size: int, name: str, path: Path) -> Array:
    """Return an array (T, size) or (T, N, size) as (N, T, size)."""
    if array.ndim not in (2, 3) or array.shape[-1] != size or not array.size or array.dtype.kind not in "fiub":
        raise SamiError(
            f"{path}: {name} is {array.dtype} of shape {array.shape}; expected numbers (steps, {size}) or (steps, "
            f"environments, {size}). Correct the array."
        )
    if not np.isfinite(array).all():
        raise SamiError(f"{path}: {name} contains NaN or infinity. Leave such steps out.")
    return np.asarray(array if array.ndim == 3 else array[:, None], np.float32).swapaxes(0, 1)


def _before_the_network(values: Mapping[str, Array], recipe: Recipe) -> Rollout:
    """Convert the network's inputs and outputs to signals and actions, each (N, T, size).

    Raises:
        SamiError: The recipe has a history of whole frames, which is not supported here.
    """
    signals: Rollout = {}
    if recipe.history is not None:
        raise SamiError("the network reads stacked frames; give arrays by the names of the signals instead.")
    for source, terms in recipe.inputs.items():
        for name, term in terms:
            if isinstance(term, SignalTerm):
                size = len(term.elements)
                start, stop = term.slice
                newest = stop - size if term.history is None or term.history.first == "oldest" else start
                part = values[source][..., newest : newest + size]
                signals[name] = part / row(term.scale, size) + row(term.offset, size)
    action, answer = recipe.action, values[recipe.output]
    size = len(action.elements)
    if action.clip:
        answer = np.clip(answer, -action.clip, action.clip)
    return signals | {action.name: answer * row(action.scale, size) + row(action.default, size)}


def _episodes(
    values: Mapping[str, Array], dones: NDArray[Any] | None, shape: tuple[int, ...], path: Path
) -> Iterable[Rollout]:
    """Yield each episode of values (N, T, size)."""
    count, steps = shape
    ends = np.zeros((steps, count), bool)
    if dones is not None:
        if dones.size != ends.size or dones.dtype.kind not in "fiub":
            raise SamiError(f"{path}: {DONES} has shape {dones.shape}; expected ({steps},) or ({steps}, {count}).")
        ends = dones.reshape(ends.shape) != 0
    for row_of in range(count):
        cuts = [0, *(np.flatnonzero(ends[:, row_of]) + 1), steps]
        for start, stop in pairwise(cuts):
            if stop > start:
                yield {name: array[row_of, start:stop] for name, array in values.items()}
