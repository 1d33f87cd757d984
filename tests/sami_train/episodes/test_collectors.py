"""What passes between the learner and its collectors."""

import multiprocessing as mp

import numpy as np

from sami_train.episodes.collectors import SharedWeights
from sami_train.episodes.numpy_policy import Weights


def weights(value):
    arrays = {"actor.weight_0": np.full((2, 3), value, np.float32), "actor.bias_0": np.full(2, -value, np.float32)}
    return Weights("gaussians", encoder_columns=19, clip=5.0, arrays=arrays)


def test_shared_weights_come_out_whole_and_newest():
    shared = SharedWeights(weights(1.0), mp.get_context("spawn"))
    first = shared.read()
    shared.write(weights(2.0))
    for read, expected in ((first, weights(1.0)), (shared.read(), weights(2.0))):
        assert (read.encoder, read.encoder_columns, read.clip) == ("gaussians", 19, 5.0)
        assert list(read.arrays) == list(expected.arrays)
        assert all(np.array_equal(read.arrays[name], array) for name, array in expected.arrays.items())
    assert shared.version.value == 2
