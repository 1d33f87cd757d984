"""Figures: every method has a colour, also one that is new."""

import pytest

from sami_train.config.methods import METHODS, Method
from sami_train.studies.charts.chart import colour_of
from sami_train.studies.compare import estimates
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import read_runs
from sami_train.studies.compare.plots import draw
from tests.making.made_runs import made_run


def test_each_method_has_a_colour_of_its_own_and_new_ones_change_no_others(monkeypatch):
    papers = [colour_of(method) for method in METHODS.values()]
    newcomers = [Method("new", "New"), Method("newer", "Newer")]
    monkeypatch.setitem(METHODS, "new", newcomers[0])
    first = colour_of(newcomers[0])
    monkeypatch.setitem(METHODS, "newer", newcomers[1])
    colours = [colour_of(method) for method in METHODS.values()]
    assert colours[:-1] == [*papers, first]
    assert len(set(colours)) == len(colours)


def test_a_comparison_with_new_methods_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(estimates, "REPLICATES", 50)
    for name in ("new", "newer"):
        monkeypatch.setitem(METHODS, name, Method(name, name.capitalize()))
    for method in ("new", "newer"):
        for seed in (0, 1):
            for trajectories in (64, 16):
                path = tmp_path / f"{method}-{seed}-{trajectories}"
                made_run(path, method, seed, success=0.5 + 0.1 * seed, contrast__trajectories=trajectories)
    plots = draw(MethodComparison(read_runs([tmp_path]), "contrast.trajectories"), tmp_path)
    assert {"intervals.png", "learning_curves.png", "by_key.png"} <= {plot.name for plot in plots}
