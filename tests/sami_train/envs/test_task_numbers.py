"""On which scale features of tasks are told apart."""

import numpy as np
import pytest

from sami_train.envs.catalog import environment
from sami_train.envs.task_numbers import FeatureScale, TaskCode, standardised
from sami_train.envs.tasks import Feature

PANDA, CHEETAH = environment("panda").tasks, environment("crippled-half-cheetah").tasks


def test_what_spans_a_decade_is_compared_by_ratio_and_comes_back():
    for space, logarithmic in ((PANDA, True), (CHEETAH, False)):
        scale = FeatureScale.of(space.features[0], space.sets["training"])
        assert scale.logarithmic is logarithmic
        values = np.array([scale.low, scale.high])
        assert scale.value(scale.place(values)) == pytest.approx(values)


def test_tasks_are_told_by_numbers_of_mean_0_and_deviation_1():
    for space in (PANDA, CHEETAH):
        report = standardised(space.features, space.sets["training"])
        assert report.mean(0) == pytest.approx(np.zeros(report.shape[1]), abs=1e-6)
        assert report.std(0) == pytest.approx(np.ones(report.shape[1]), abs=1e-5)


def test_the_oracle_reads_a_decade_linearly_as_trained_ones_do():
    feature, extremes = Feature("friction", "", 0.0), [{"friction": 0.1}, {"friction": 10.0}]
    assert FeatureScale.of(feature, extremes).logarithmic
    codes = TaskCode.of([feature], extremes).encode([*extremes, {"friction": 1.0}, {"friction": 14.95}])
    assert codes[:, 0] == pytest.approx([-1.0, 1.0, -9.0 / 11.0, 2.0])


def test_what_never_differs_is_not_told():
    assert standardised(PANDA.features, PANDA.sets["training"][:4]).shape == (4, 1)
    assert standardised(PANDA.features, PANDA.sets["training"][:1]).shape == (1, 0)
