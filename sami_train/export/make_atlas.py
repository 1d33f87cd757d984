"""Makes the atlas of a model file: where the contexts of the training tasks lie. No torch here.

The file itself drives the training tasks, deterministically. Of each task's episodes the first half fits a Gaussian,
the other half calibrates what is far from it (split conformal prediction): the threshold is the k-th smallest of the
n held-out episodes' largest distances, k = ceil((n + 1) (1 - rate)). Then a fresh episode in the same tasks gives an
alarm with a probability of at most the rate, whatever the contexts' true distribution. A policy that learned behind a
gap to reality knows the world so: its contexts are measured behind that gap.
"""

from __future__ import annotations

from pathlib import Path

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact, artifact_of
from sami_runtime.model.atlas import Atlas
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound
from sami_train.export.collect import collect_contexts
from sami_train.export.fit_atlas import fit, require_enough
from sami_train.export.known import known_gap, known_tasks

SEED = seeds.ATLAS


def measure(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    episodes: int,
    window: int | None = None,
    seed: int = SEED,
    on_round: OnRound | None = None,
) -> Atlas:
    """Return the atlas of a model file, or of one that is not written yet.

    See `collect_contexts` and `fit` for the arguments.

    Raises:
        SamiError: the model infers no context, there are too few episodes, or none is long enough for the window.
    """
    artifact = artifact_of(model)
    contract = artifact.contract
    if not contract.context_size:
        raise SamiError(
            f"{artifact.path} infers no context, so there is nothing to make an atlas of. Policies of the methods sac "
            "and sac-history never have one."
        )
    tasks = known_tasks(contract.training, spec)
    require_enough(episodes, len(tasks))
    contexts = collect_contexts(artifact, spec, tasks, episodes, seed, on_round, known_gap(contract.training))
    half = (episodes + 1) // 2
    return fit([task[:half] for task in contexts], [task[half:] for task in contexts], tasks, window)
