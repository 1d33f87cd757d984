"""Presets: what each environment of ours is trained with, and what follows from the fields of any other's."""

import dataclasses
import json
from pathlib import Path

import pytest

from sami_train.config.preset import SHORT, load_preset, presets
from sami_train.config.resolve import explain, from_dict, resolve
from sami_train.config.schema import ConfigError, defaults, keys
from sami_train.envs.catalog import ENVIRONMENTS

LATER = ("go2", "panda-heavy", "so101")
"""Environments that came after these results."""
BEFORE = json.loads((Path(__file__).parent / "resolved_presets.json").read_text(encoding="utf-8"))
"""Values by preset, environment and key, written when presets still had a family each; every MuJoCo robot but the first
tells only where it differs from that one."""


@pytest.fixture
def like(monkeypatch):
    """Makes an environment like one of ours, but for some fields, known as `mine`."""

    def make(name, **changes):
        spec = dataclasses.replace(ENVIRONMENTS[name], name="mine", hyperparameters={}, **changes)
        monkeypatch.setitem(ENVIRONMENTS, "mine", spec)
        return spec

    return make


def test_a_key_has_one_default_in_the_schema_or_in_the_presets():
    tables = [load_preset(preset, spec)[0] for preset in presets() for spec in ENVIRONMENTS.values()]
    always = set.intersection(*map(set, tables))
    # Exploration without a plan has no warm-up: rollouts that do not train use the table as it is.
    assert always & defaults().keys() == {"exploration.warmup_steps"}
    assert set(keys()) - always == defaults().keys() - {"exploration.warmup_steps"}


@pytest.mark.parametrize("preset", BEFORE)
@pytest.mark.parametrize("env", [env for env in ENVIRONMENTS if env not in LATER])
def test_our_environments_are_trained_with_the_values_that_their_results_were_made_with(preset, env):
    report = BEFORE[preset]
    # The Panda's values are those of its task, whatever simulates it.
    panda = ENVIRONMENTS[env].tasks is ENVIRONMENTS["panda"].tasks
    expected = report["panda"] if panda else report["half-cheetah"] | report[env]
    values = json.loads(json.dumps(resolve(preset, {"env": env, "method": "satesac"}).by_key()))
    # Since then: float32, which is faster without instructions for bfloat16, and a buffer that a contrast can compare.
    compared = values["contrast.trajectories"] * len(ENVIRONMENTS[env].tasks.sets["training"])
    expected |= {
        "learning.bf16": False,
        "learning.buffer_episodes": max(expected["learning.buffer_episodes"], compared),
    }
    assert {key: values[key] for key in expected} == expected


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("name", ["panda", "hopper"])
@pytest.mark.parametrize("steps", [1, 50, SHORT, SHORT + 1, 5000])
@pytest.mark.parametrize("early", [True, False])
def test_every_preset_fits_an_environment_of_any_length_with_a_goal_or_none(like, preset, name, steps, early):
    bare = {"reach": None, "training_options": (), "extra": None, "batch_entry_point": None}
    like(name, episode_steps=steps, ends_early=early, **bare)
    config = resolve(preset, {"env": "mine"})
    assert config.learning.buffer_episodes >= 1
    assert config.exploration.reach_episodes == 0.0
    assert not config.collection.end_on_fall
    assert config.learning.window <= steps


def test_what_a_preset_says_of_an_environment_does_not_ask_for_its_name(like):
    for name in ("panda", "half-cheetah"):
        like(name)
        for preset in presets():
            own_keys, preset_keys = (resolve(preset, {"env": env}).by_key() for env in ("mine", name))
            assert {key for key in keys() if own_keys[key] != preset_keys[key]} == {"env"}


def test_a_dense_reward_in_short_episodes_is_learned_from_whole_episodes_and_without_hindsight(like):
    """A pendulum: 200 steps, one motor, no goal."""
    action = ENVIRONMENTS["hopper"].action.model_copy(update={"size": 1})
    like("hopper", episode_steps=200, action=action, batch_entry_point=None)
    config = resolve("fast-cpu", {"env": "mine"})
    learning = config.learning
    assert (learning.window, learning.burn_in, learning.hindsight, learning.clip_targets) == (0, 0, 0.0, False)
    assert (learning.batch_episodes, learning.batch_transitions, learning.steps_per_draw) == (16, 256, 4)
    assert (learning.buffer_episodes, learning.target_entropy) == (5000, -1.0)
    assert (config.steps, config.exploration.warmup_steps, config.collection.workers) == (300_000, 6_000, 1)


def test_a_goal_in_long_episodes_is_learned_from_in_windows_and_with_hindsight(like):
    like("panda", episode_steps=1000)
    config = resolve("fast-cpu", {"env": "mine"})
    learning = config.learning
    assert (learning.window, learning.burn_in, learning.hindsight, learning.clip_targets) == (32, 8, 0.8, True)
    assert (learning.discount, learning.buffer_episodes, learning.target_entropy) == (0.99, 1000, -2.0)
    assert (config.steps, config.collection.reward) == (1_000_000, "sparse")


@pytest.mark.parametrize(
    ("steps", "discount"), [(5, 0.9), (25, 0.9), (50, 0.95), (100, 0.975), (200, 0.9875), (250, 0.99), (2000, 0.99)]
)
def test_the_discount_looks_two_fifths_of_an_episode_ahead_from_10_to_100_steps(like, steps, discount):
    like("hopper", episode_steps=steps)
    assert resolve("fast-cpu", {"env": "mine"}).learning.discount == discount


def test_episodes_that_may_end_early_get_more_places_in_the_buffer(like):
    like("hopper", ends_early=True)
    assert resolve("fast-cpu", {"env": "mine"}).learning.buffer_episodes == 2000
    assert resolve("fast-cpu", {"env": "hopper"}).learning.buffer_episodes == 1000


def test_what_an_environment_asks_for_wins_over_what_follows_and_loses_against_what_is_given(monkeypatch):
    values = {"learning.buffer_episodes": 700, "learning.discount": 0.5, "learning.window": 16}
    values |= {"behind_gap.estimate": 1.0, "behind_gap.critic_actions": 3}  # former names
    spec = dataclasses.replace(ENVIRONMENTS["hopper"], name="mine", hyperparameters={"fast-cpu": values})
    monkeypatch.setitem(ENVIRONMENTS, "mine", spec)
    config, derivations = explain("fast-cpu", {"env": "mine", "learning.window": 64, "with_profile.estimate": 2.0})
    assert (config.with_profile.estimate, config.with_profile.critic_actions) == (2.0, 3)
    assert (config.learning.buffer_episodes, config.learning.discount, config.learning.window) == (700, 0.5, 64)
    assert {(f.key, f.why) for f in derivations} >= {
        ("learning.buffer_episodes", "what mine asks for"),
        ("with_profile.critic_actions", "what mine asks for"),
        ("learning.window", "given"),
    }
    assert resolve("paper", {"env": "mine"}).learning.discount == 0.99


def test_every_value_that_is_not_every_environments_has_its_reason():
    reasons = {(env, f.key): f for env in ("panda", "walker") for f in explain("fast-cpu", {"env": env}).derivations}
    assert reasons["panda", "learning.hindsight"].value == 0.8
    assert reasons["panda", "learning.hindsight"].why.startswith("a goal: ")
    assert reasons["walker", "learning.window"].why.startswith("2,000 steps an episode: ")
    assert reasons["walker", "learning.target_entropy"].why == "-1 for each number of an action, of which there are 6"
    assert reasons["walker", "learning.buffer_episodes"].why == "1,000,000 transitions, 300 steps an episode"
    panda, walker = (resolve("fast-cpu", {"env": env}).by_key() for env in ("panda", "walker"))
    differences = {key for key in keys() if panda[key] != walker[key]}
    report = {key for _, key in reasons}
    assert differences <= report
    assert not [f for f in reasons.values() if f.key.startswith("follows.")]


def test_only_what_changes_something_counts_as_given():
    table = {"env": "walker", "seed": 0, "method": "satesac", "learning.discount": 0.97, "learning.window": 32}
    derivations = explain("fast-cpu", table).derivations
    assert {f.key for f in derivations if f.why == "given"} == {"env", "method", "learning.discount"}


def test_an_environment_asks_for_nothing_that_a_configuration_does_not_have():
    for spec in ENVIRONMENTS.values():
        assert set(spec.hyperparameters) <= set(presets())
        for name in presets():
            values, derivations = load_preset(name, spec)
            assert set(values) | {f.key for f in derivations} <= set(keys())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"steps": 3000}, r"steps is 3,000 and exploration\.warmup_steps 6,000: .* after 6,016 .* at most 2,984\."),
        ({"steps": 6015}, r"steps is 6,015 .* at most 5,999"),
        ({"steps": 9}, r"Set steps to at least that\.$"),
        ({"env": "hopper", "steps": 10_000}, "after 10,032 steps"),
    ],
)
def test_a_run_that_is_over_before_its_first_update_is_refused_with_the_numbers(value, message):
    with pytest.raises(ConfigError, match=message):
        resolve("fast-cpu", value)


def test_the_shortest_run_has_one_update_and_what_was_run_before_is_still_read():
    assert resolve("fast-cpu", {"steps": 6016}).updates_after(6016) == 1
    assert resolve("fast-cpu", {"steps": 3000, "exploration.warmup_steps": 2984}).updates_after(3000) == 1
    short = {**resolve("fast-cpu").to_dict(), "steps": 10}
    assert from_dict(short).updates_after(10) == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"collection.end_on_fall": True}, "collection.end_on_fall is true, but mine does not detect falls"),
        ({"exploration.reach_episodes": 0.5}, "exploration.reach_episodes is 0.5, but mine has no scripted reach"),
    ],
)
def test_what_an_environment_does_not_have_cannot_be_asked_for(like, value, message):
    like("panda", training_options=(), reach=None)
    with pytest.raises(ConfigError, match=message):
        resolve("fast-cpu", {"env": "mine", **value})
