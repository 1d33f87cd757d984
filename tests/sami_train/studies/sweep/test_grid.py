"""Laws of a sweep's grid: how many cells, in which order, under which names; and what may be added to it."""

import itertools
import shlex

import pytest
from sami_cli.app import app
from typer.main import get_command

from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from sami_train.studies.sweep.grid import Grid, GridError, parse_axis

AXES = {
    "env": ["panda"],
    "method": ["tesac", "satesac"],
    "preset": ["fast-cpu", "paper"],
    "seed": [0, 1, 2],
    "contrast.trajectories": [16, 64],
    "learning.discount": [0.9],
}


def names(grid):
    return [cell.name for cell in grid.cells()]


def test_a_grid_is_every_combination_once():
    cells = Grid(AXES).cells()
    expected = set(itertools.product(["tesac", "satesac"], ["fast-cpu", "paper"], [0, 1, 2], [16, 64]))
    results = [(c.config.method, c.config.preset, c.config.seed, c.config.contrast.trajectories) for c in cells]
    assert len(results) == len(expected) == 24
    assert set(results) == expected
    assert len({cell.name for cell in cells}) == 24
    assert {cell.config.learning.discount for cell in cells} == {0.9}


def test_a_preset_means_in_each_cell_what_suits_its_environment():
    axes = {"env": ["panda", "hopper", "crippled-walker"], "method": ["tesac"], "seed": [0], "preset": ["fast-cpu"]}
    cells = Grid(axes).cells()
    assert [cell.config for cell in cells] == [
        resolve("fast-cpu", {"env": env, "method": "tesac", "seed": 0}) for env in axes["env"]
    ]
    assert [cell.config.learning.window for cell in cells] == [0, 32, 32]
    assert [cell.config.learning.target_entropy for cell in cells] == [-2.0, -3.0, -6.0]


def test_cells_come_in_the_order_of_their_values_with_whole_comparisons_first():
    grid = Grid({"env": ["panda"], "method": ["tesac", "satesac"], "seed": [5, 3]})
    assert names(grid) == ["panda-tesac-5", "panda-satesac-5", "panda-tesac-3", "panda-satesac-3"]


def test_only_what_varies_enters_a_name():
    assert names(Grid({**AXES, "preset": ["paper"], "contrast.trajectories": [16]}))[0] == "panda-tesac-0"
    assert names(Grid(AXES))[0] == "panda-tesac-0-preset=fast-cpu-trajectories=16"


def test_a_sweep_over_a_former_key_keeps_the_names_of_its_cells():
    cells = Grid({**AXES, "preset": ["paper"], "behind_gap.true_critic": [False, True]}).cells()
    assert [cell.name for cell in cells][:2] == [
        "panda-tesac-0-trajectories=16-true_critic=false",
        "panda-tesac-0-trajectories=16-true_critic=true",
    ]
    assert cells[1].config.with_profile.privileged_critic


@pytest.mark.parametrize(
    ("axis", "suffixes"),
    [
        ("network.net_arch=[32,32],[64]", ["net_arch=32x32", "net_arch=64"]),
        ("learning.discount=0.9, 0.95", ["discount=0.9", "discount=0.95"]),
        ("learning.bf16=true,false", ["bf16=true", "bf16=false"]),
        ("steps=2e5,10000", ["steps=200000", "steps=10000"]),
        ("device=cpu,cuda:0", ["device=cpu", "device=cuda_0"]),
    ],
)
def test_values_are_read_as_toml_and_shown_in_names(axis, suffixes):
    key, values = parse_axis(axis)
    grid = Grid({"env": ["panda"], "method": ["tesac"], "seed": [0], key: values})
    assert names(grid) == [f"panda-tesac-0-{suffix}" for suffix in suffixes]


@pytest.mark.parametrize("text", ["seed=", "seed=0,", "seed=,1", "seed=0,,1"])
def test_an_empty_value_is_refused(text):
    with pytest.raises(GridError, match="has an empty value"):
        parse_axis(text)


def test_an_axis_needs_an_equals_sign():
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        parse_axis("seed")


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ({"seed": [0, 1, 0]}, "seed has 0 twice"),
        ({"seed": []}, "seed has no value"),
        ({"method": ["tesac", "satsac"]}, "cell panda-satsac-0: unknown method 'satsac'. Did you mean"),
        ({"contrast.trajectories": [16, 2]}, "cell panda-tesac-0-trajectories=2: contrast.trajectories is 2; it must"),
        ({"contrast.trajectorys": [16]}, "cell panda-tesac-0: unknown config key 'contrast.trajectorys'"),
        ({"device": ["cuda:0", "cuda_0"]}, "2 cells are named panda-tesac-0-device=cuda_0"),
    ],
)
def test_a_wrong_value_is_refused_naming_the_cell(axis, message):
    with pytest.raises(GridError) as refusal:
        Grid({"env": ["panda"], "method": ["tesac"], "seed": [0], **axis}).cells()
    assert message in str(refusal.value)


def test_a_grid_that_grows_keeps_the_names_and_settings_of_its_cells():
    first = Grid({"env": ["panda"], "method": ["tesac"], "seed": [0, 1], "contrast.trajectories": [16]})
    wider = Grid({**first.axes, "method": ["satesac", "tesac"], "seed": [1, 0, 2], "contrast.trajectories": [64, 16]})
    grown = first.extended(wider)
    before = {cell.name: cell.config for cell in first.cells()}
    after = {cell.name: cell.config for cell in grown.cells()}
    assert len(after) == 2 * 3 * 2
    assert before == {name: after[name] for name in before}
    assert "panda-tesac-0-trajectories=64" in after
    assert "panda-tesac-0-trajectories=16" not in after
    plain = grown.to_dict()
    assert names(Grid(plain["axes"], plain["unnamed"])) == names(grown)
    assert names(grown.extended(wider)) == names(grown)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": [0]}, "seed is 0,1 in the sweep that is there, and now 0;"),
        ({"steps": [200]}, "steps is 100 in the sweep that is there, and now 200;"),
        ({"learning.discount": [0.9]}, "learning.discount is not set in the sweep that is there, and now is;"),
    ],
)
def test_a_grid_that_contradicts_is_refused_with_what_differs(change, message):
    first = Grid({"env": ["panda"], "method": ["tesac"], "seed": [0, 1], "steps": [100]})
    with pytest.raises(GridError) as refusal:
        first.extended(Grid({**first.axes, **change}))
    assert message in str(refusal.value)
    with pytest.raises(GridError, match="steps is set in the sweep that is there, and now is not;"):
        first.extended(Grid({key: values for key, values in first.axes.items() if key != "steps"}))


def test_the_command_of_a_cell_is_one_that_sami_train_takes(tmp_path):
    axes = {**AXES, "network.net_arch": [[32, 32]], "steps": [2e5], "collection.workers": [0], "device": ["cpu"]}
    for cell in Grid(axes).cells()[:3]:
        words = shlex.split(shlex.join(cell.command(tmp_path)))
        assert words[:2] == ["sami", "train"]
        train = get_command(app).commands["train"]  # type: ignore[attr-defined]
        options = train.make_context("train", words[2:]).params
        overrides = dict(parse_axis(text) for text in options["override"])
        choices = {key: values[0] for key, values in overrides.items()}
        choices |= {key: options[key] for key in ("env", "method", "seed", "steps")}
        assert resolve(options["preset"], choices) == cell.config
