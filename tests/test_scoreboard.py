"""The outside scoreboard: its tasks hide what they say, its clock is fair, its table leaves no loss out.

Nothing here needs the packages of the peers.
"""

import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.scoreboard import run as commands  # noqa: E402
from benchmarks.scoreboard.budget import Clock, Metered, TimeIsUpError, play, train  # noqa: E402
from benchmarks.scoreboard.curves import chart  # noqa: E402
from benchmarks.scoreboard.methods import METHODS  # noqa: E402
from benchmarks.scoreboard.table import Run, read_runs, tables  # noqa: E402
from benchmarks.scoreboard.tasks import GRAVITY, TASKS, WALKER_HIDDEN, Hidden, HiddenPhysics, Task  # noqa: E402

GRAVITIES = ["gravity-half-cheetah", "gravity-hopper"]


class _Still:
    """Acts by zeros, and counts how often it did."""

    def __init__(self, size: int) -> None:
        self.size, self.acted = size, 0

    def reset(self, count):
        self.count = count

    def act(self, observations):
        assert len(observations) == self.count
        self.acted += 1
        return np.zeros((self.count, self.size))


class _Pays(gym.Env):
    """Pays its hidden number at every step, and shows nothing."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))
    number = 0.0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {"number": self.number}

    def step(self, action):
        return np.zeros(2), self.number, False, False, {"number": self.number}


def _pays() -> Task:
    return Task(
        name="pays",
        make=_Pays,
        hidden={"number": Hidden(1.0, 3.0)},
        apply=lambda env, physics: setattr(env, "number", physics["number"]),
        read=lambda env: {"number": env.number},
        sets={"inside": [{"number": 1.0}, {"number": 2.0}], "outside": [{"number": 5.0}]},
        ends_early=False,
        rate_hz=20.0,
    )


@pytest.mark.parametrize("name", GRAVITIES)
def test_the_simulator_has_the_gravity_that_was_drawn(name):
    env = HiddenPhysics(TASKS[name])
    exponents = []
    for seed in range(100):
        env.reset(seed=seed)
        env.step(env.action_space.sample())
        assert TASKS[name].read(env.env) == pytest.approx(env.physics)
        exponents.append(np.log(env.physics["gravity"]) / np.log(1.5))
    assert -3.0 <= min(exponents) < -2.5
    assert 2.5 < max(exponents) <= 3.0
    assert abs(np.mean(exponents)) < 0.6


@pytest.mark.parametrize("name", GRAVITIES)
def test_gravity_is_not_observed_and_changes_what_happens(name):
    first, later = [], []
    for gravity in (0.4, 3.0):
        env = HiddenPhysics(TASKS[name])
        observation, info = env.reset(seed=3, options={"physics": {"gravity": gravity}})
        assert info == {}
        first.append(observation)
        for _ in range(5):
            observation, *_, info = env.step(np.full(env.action_space.shape, 0.3))
            assert info == {}
        later.append(observation)
    np.testing.assert_array_equal(*first)
    assert np.abs(later[0] - later[1]).max() > 0.01


def test_one_that_is_told_observes_gravity_in_its_last_number():
    hidden, informed = (HiddenPhysics(TASKS["gravity-hopper"], reads_task=reads_task) for reads_task in (False, True))
    for gravity, number in ((GRAVITY.low, -1.0), (1.0, 0.0), (GRAVITY.high, 1.0)):
        options = {"physics": {"gravity": gravity}}
        plain, (observation, _) = hidden.reset(seed=1, options=options)[0], informed.reset(seed=1, options=options)
        np.testing.assert_array_equal(observation[:-1], plain)
        assert observation[-1] == pytest.approx(number, abs=1e-6)
    assert informed.observation_space.shape[0] == hidden.observation_space.shape[0] + 1


def test_an_episode_ends_after_a_thousand_steps():
    env = HiddenPhysics(_pays())
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[2:4] for _ in range(1000)]
    assert [sum(column) for column in zip(*ends, strict=True)] == [0, 1]
    assert ends[-1] == (False, True)


def test_our_own_methods_see_the_same_environment():
    from benchmarks.scoreboard.in_house import HOPPER
    from sami_train.envs.make import make

    env = make(HOPPER, tasks="training")
    gravities = set()
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        assert TASKS["gravity-hopper"].read(env.unwrapped.env.env) == pytest.approx(info["task"])
        assert observation.shape == (11,)
        gravities.add(info["task"]["gravity"])
    assert len(gravities) == 5
    assert min(gravities) >= GRAVITY.low
    assert max(gravities) <= GRAVITY.high
    env.close()


def test_the_walker_is_judged_in_the_published_contexts():
    sets = TASKS["carl-walker"].sets
    assert {name: len(contexts) for name, contexts in sets.items()} == {"interpolation": 13, "extrapolation": 71}
    for name, contexts in sets.items():
        for context in contexts:
            within = [span.low <= context[key] <= span.high for key, span in WALKER_HIDDEN.items()]
            assert all(within) == (name == "interpolation")
    assert {"gravity": 0.98, "actuator_strength": 2.0} in sets["extrapolation"]


def test_the_walker_has_the_physics_that_were_drawn():
    pytest.importorskip("dm_control")
    env = HiddenPhysics(TASKS["carl-walker"])
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        assert observation.shape == (24,)
        assert TASKS["carl-walker"].read(env.env) == pytest.approx(env.physics)


def _clock(minutes: float, a_step: float) -> tuple[Clock, _Still]:
    """Return a clock of a time in which a step takes so many seconds, and whatever an actor does takes ten."""
    actor, clock = _Still(1), None
    clock = Clock(_pays(), minutes, False, lambda: (clock.steps * a_step if clock else 0.0) + 10.0 * actor.acted)
    clock.start(actor)
    return clock, actor


def _learn(clock: Clock) -> None:
    env = Metered(clock.task, clock)
    env.reset(seed=0)
    while True:
        *_, truncated, _ = env.step(np.zeros(1))
        if truncated:
            env.reset()


def test_evaluation_takes_nothing_off_the_budget():
    clock, actor = _clock(minutes=20.0, a_step=1.0)
    train(lambda: _learn(clock))
    assert [point["seconds"] for point in clock.curve] == [120.0 * k for k in range(1, 11)]
    assert [point["steps"] for point in clock.curve] == [120 * k for k in range(1, 11)]
    assert actor.acted == 1000 * 11


def test_only_the_last_evaluation_has_every_set():
    clock, _ = _clock(minutes=2.0, a_step=1.0)
    train(lambda: _learn(clock))
    assert [point["returns"] for point in clock.curve] == [
        {"inside": [1000.0, 2000.0]},
        {"inside": [1000.0, 2000.0], "outside": [5000.0]},
    ]


def test_a_library_that_learns_in_bursts_is_evaluated_once_for_several_points():
    clock, _ = _clock(minutes=10.0, a_step=150.0)
    train(lambda: _learn(clock))
    assert [point["seconds"] for point in clock.curve] == [150.0, 300.0, 450.0, 600.0]


def test_training_that_ends_before_its_time_is_an_error():
    with pytest.raises(RuntimeError, match="before its time"):
        train(lambda: None)


def test_the_clock_ends_a_run():
    clock, _ = _clock(minutes=1.0, a_step=60.0)
    with pytest.raises(TimeIsUpError):
        clock.tick()


def test_steps_can_stand_for_the_minutes_whatever_time_they_take():
    actor = _Still(1)
    clock = Clock(_pays(), 5.0, False, lambda: 7.0 * actor.acted, steps=50)
    clock.start(actor)
    train(lambda: [clock.tick() for _ in range(1000)])
    assert [point["steps"] for point in clock.curve] == [10, 20, 30, 40, 50]
    assert [point["seconds"] for point in clock.curve] == [60.0, 120.0, 180.0, 240.0, 300.0]
    assert clock.share == 1.0


def test_every_policy_starts_alike():
    actor = _Still(3)
    task = TASKS["gravity-hopper"]
    contexts = task.sets["training"][:2]
    assert play(task, actor, contexts, False) == play(task, actor, contexts, False)


def _run(method: str, seed: int, scores: list[float], minutes: float = 30.0) -> Run:
    curve = [{"steps": 20_000 * (k + 1), "returns": {"training": [score, score]}} for k, score in enumerate(scores)]
    return Run({"task": "gravity-hopper", "method": method, "seed": seed, "minutes": minutes}, curve)


def test_the_table_prints_losses_seeds_and_what_is_missing():
    runs = [_run("sami-tesac", seed, [100, 200 + seed]) for seed in range(3)]
    runs += [_run("sb3-sac-stacked", 0, [150, 300]), _run("skrl-recurrent-sac", 0, [10, 20])]
    runs[0].curve[-1]["steps"] = 30_000
    lines = list(tables(runs, lambda scores: {name: (float(v.mean()), 1.0, 2.0) for name, v in scores.items()}))
    assert "| sami-tesac | 3 | 30,000-40,000 | 201 [1, 2] |" in lines
    assert "| sb3-sac-stacked | 1 | 40,000 | 300 |" in lines
    assert "| sb3-recurrent-ppo | 0 | missing | missing |" in lines
    assert "| sami-tesac (201) | training | sb3-sac-stacked | skrl-recurrent-sac |" in lines


@pytest.mark.parametrize(
    ("minutes", "seeds", "controls", "concludes"),
    [(30.0, 3, 3, True), (30.0, 3, 0, True), (3.0, 3, 3, False), (30.0, 1, 3, False)],
)
def test_few_minutes_or_few_seeds_conclude_nothing_but_controls_may_lack_seeds(minutes, seeds, controls, concludes):
    runs = [
        _run(name, seed, [1, 2], minutes)
        for name, method in METHODS.items()
        for seed in range(controls if method.control else seeds)
    ]
    lines = list(tables(runs, lambda scores: {name: (0.0, 0.0, 0.0) for name in scores}))
    assert any(line.startswith("**No conclusion**") for line in lines) != concludes


def test_the_table_counts_runs_that_steps_ended():
    runs = [_run("sami-tesac", 0, [100]), _run("skrl-recurrent-sac", 0, [10]), _run("skrl-recurrent-sac", 1, [10])]
    runs[2].facts["budget_steps"] = 3157
    lines = list(tables(runs, lambda scores: {name: (0.0, 0.0, 0.0) for name in scores}))
    assert "Runs ended by steps instead of minutes: skrl-recurrent-sac 1." in lines
    runs[2].facts["budget_steps"] = None
    lines = list(tables(runs, lambda scores: {name: (0.0, 0.0, 0.0) for name in scores}))
    assert not any("ended by steps" in line for line in lines)


def test_equal_steps_are_read_between_the_points_of_a_curve():
    run = _run("sami-tesac", 0, [100, 300])
    assert [run.at_steps(steps) for steps in (10_000, 20_000, 30_000, 50_000)] == [None, 100.0, 200.0, None]
    lines = list(tables([run, _run("sb3-sac-stacked", 0, [50, 60, 70])]))
    assert "| at equal steps, from the same curves | 20,000 |" in lines


def test_runs_of_other_minutes_are_not_compared():
    lines = list(tables([_run("sami-tesac", 0, [1]), _run("sami-sac", 0, [2], 3.0)]))
    titles = [line for line in lines if line.startswith("###")]
    assert titles == ["### gravity-hopper, 3 minutes of one core", "### gravity-hopper, 30 minutes of one core"]


def test_missing_runs_are_made_seed_by_seed_and_finished_ones_left_out(tmp_path, monkeypatch):
    path = commands.file_of("gravity-hopper", "sami-tesac", 0, 3.0, tmp_path)
    path.parent.mkdir()
    path.write_text("kept", encoding="utf-8")
    cells = list(commands.missing(["gravity-hopper"], 2, 3.0, tmp_path))
    assert [(method, seed) for _, method, seed in cells] == [
        *((method, 0) for method in list(METHODS)[1:]),
        *((method, 1) for method in METHODS),
    ]
    monkeypatch.setattr(commands, "METHODS", {})
    assert commands.run("gravity-hopper", "sami-tesac", 0, 3.0, tmp_path) == path
    assert path.read_text(encoding="utf-8") == "kept"


def test_a_run_is_one_line_of_facts_and_one_an_evaluation(tmp_path):
    path = tmp_path / "gravity-hopper" / "a.jsonl"
    path.parent.mkdir()
    run = _run("sami-sac", 0, [5])
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [run.facts, *run.curve]), encoding="utf-8")
    assert read_runs(tmp_path) == [run]


def test_the_docs_have_the_tables_of_the_runs_that_are_there():
    runs = read_runs(ROOT / "results/scoreboard")
    if len({(run.cell, run.facts["method"]) for run in runs}) < len(runs):
        pytest.importorskip("rliable")
    page = (ROOT / "docs/results/scoreboard.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in tables(runs) if line not in page] == []


def test_rliable_can_be_imported_by_the_pins_of_the_scoreboard():
    """It needs arch 7, which cannot be imported beside pandas 3; from a method's second seed on, tables need it."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "benchmarks/scoreboard/requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    assert (int(pins["arch"].split(".")[0]), int(pins["pandas"].split(".")[0])) == (7, 2)


def test_a_chart_has_every_seed_and_the_mean_of_a_method():
    from matplotlib.figure import Figure

    runs = [_run("sami-tesac", 0, [100, 200]), _run("sami-tesac", 1, [300, 500]), _run("sb3-sac-told", 0, [50, 60])]
    for run in runs:
        for point in run.curve:
            point["seconds"] = point["steps"] * 0.009
    minutes, steps = chart(runs).panels
    for panel, first, last in ((minutes, 3.0, 6.0), (steps, 20_000.0, 40_000.0)):
        axes = Figure().subplots()
        panel.draw(axes)
        ends = [(*line.get_xdata()[[0, -1]], *line.get_ydata()[[0, -1]]) for line in axes.get_lines()]
        expected = [(100, 200), (300, 500), (200, 350), (50, 60), (50, 60)]
        assert ends == [(first, last, *returns) for returns in expected]
        labels = axes.get_legend_handles_labels()[1]
        assert labels == (["sami-tesac (2)", "sb3-sac-told (1)"] if panel is minutes else [])
