"""Mutated policies and contracts: one line, or a file that answers as its original; `tests/real` tries more."""

import numpy as np
import pytest

from sami_runtime import ArtifactError, adopt
from tests.making import foreign
from tests.making.hostile_policies import KINDS, POLICIES, hold_for
from tests.making.mutants import flipped


def test_hostile_policies_and_contracts_are_refused_or_adopted_and_nothing_else(tmp_path):
    hold_for(len(POLICIES) * len(KINDS), tmp_path)


def test_bytes_that_only_protobuf_refuses_cost_one_line(tmp_path):
    """What a thousand mutants found: protobuf's errors have a class of their own."""
    draw = np.random.default_rng([246, 30])
    draw.integers(13)
    policy = flipped(foreign.recurrent("GRU", batch_first=True).SerializeToString(), draw)
    paths = foreign.Foreign(tmp_path).write(policy, foreign.document(state=foreign.STATES[:1]))
    with pytest.raises(ArtifactError, match=r"policy.onnx cannot be read: .* Export it again\."):
        adopt(*paths, tmp_path / "out.onnx")
