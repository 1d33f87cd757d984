"""Configuration: what a preset means, and how a wrong key or value is answered."""

import json
import pickle
import re
from pathlib import Path

import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_train.config.preset import presets
from sami_train.config.resolve import from_dict, parse_override, resolve
from sami_train.config.schema import FORMER_NAMES, ConfigError, LearningConfig, TrainConfig, keys, present_key
from sami_train.envs.catalog import ENVIRONMENTS, environment
from sami_train.episodes.exploration import WithProfile
from sami_train.runs.train import make_env

ROOT = Path(__file__).parents[3]
WHOLE = resolve("fast-cpu").to_dict()


def one_of_each_kind():
    """Configurations that earlier versions wrote, one for each set of keys."""
    kinds = {}
    for study in sorted(ROOT.glob("results/*/runs.jsonl")):
        for line in study.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            param = pytest.param(run["config"], id=f"{study.parent.name}-{run['run']}")
            kinds.setdefault(tuple(leaves(run["config"])), param)
    assert len(kinds) >= 4
    return list(kinds.values())


def leaves(table, prefix=""):
    """Values by dotted key, as JSON."""
    result = {}
    for name, value in table.items():
        deeper = isinstance(value, dict)
        result |= leaves(value, f"{prefix}{name}.") if deeper else {prefix + name: json.dumps(value)}
    return result


def test_an_older_run_reads_as_the_present_names():
    lines = (ROOT / "results" / "models" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = next(c for c in (json.loads(line)["config"] for line in lines) if c.get("behind_gap", {}).get("spared"))
    config = from_dict(recorded)
    assert list(recorded["behind_gap"].values()) == list(config.with_profile.model_dump().values())
    assert config.with_profile == WithProfile(
        privileged_goals=True, privileged_critic=True, critic_actions=3, estimate=5.0, clean_share=0.6
    )
    assert from_dict(config.to_dict()) == config
    former = {f"behind_gap.{name}": value for name, value in recorded["behind_gap"].items()}
    assert resolve("fast-cpu", {"gap": config.gap} | former).with_profile == config.with_profile
    assert recorded["collection"]["collectors"] == config.collection.workers
    with pytest.raises(ConfigError, match=r"with_profile.clean_share is 2.0; it must lie between 0 and 1"):
        from_dict(recorded | {"behind_gap": {"spared": 2.0}})
    with pytest.raises(UnknownName, match=r"'with_profile.true_gaols'. Did you mean 'with_profile.privileged_goals'"):
        resolve("fast-cpu", {"behind_gap.true_gaols": True})


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("behind_gap.true_critic", "with_profile.privileged_critic"),
        ("behind_gap.estimate", "with_profile.estimate"),
        ("behind_gap.spared", "behind_gap.clean_share"),
        ("collection.collectors", "collection.workers"),
    ],
)
def test_a_setting_by_two_names_is_refused_by_both(former, present):
    for keys_in_order in ((former, present), (present, former)):
        with pytest.raises(ConfigError, match=" and ".join(keys_in_order)):
            resolve("fast-cpu", dict.fromkeys(keys_in_order, 0))


def test_a_file_with_both_names_of_a_table_or_key_is_refused():
    with pytest.raises(ConfigError, match="with_profile and behind_gap are two names of with_profile"):
        from_dict(WHOLE | {"behind_gap": {"estimate": 1.0}})
    with pytest.raises(ConfigError, match="spared and clean_share are two names of clean_share"):
        from_dict(WHOLE | {"with_profile": {"spared": 0.5, "clean_share": 0.5}})


def test_no_option_has_a_former_name_of_a_setting():
    former = re.compile("|".join(f'"--{name.replace("_", "-")}"' for name in FORMER_NAMES))
    scripts = [path for folder in ("benchmarks", "cli") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in scripts if former.search(path.read_text(encoding="utf-8"))] == []


def test_the_paper_preset_is_the_papers_table():
    paper = resolve("paper")
    learning = paper.learning
    assert paper.steps == 1_600_000
    assert (paper.network.hidden_size, paper.network.context_size) == (128, 6)
    assert {learning.actor_rate, learning.critic_rate, learning.encoder_rate} == {1e-3}
    assert (learning.train_every, learning.gradient_steps) == (128, 16)
    assert (learning.momentum_rate, learning.critic_target_rate) == (0.05, 0.01)
    assert (learning.batch_episodes, learning.discount) == (256, 0.99)
    assert learning.buffer_episodes * 50 == 100_000
    assert (paper.contrast.coefficient, paper.contrast.trajectories) == (0.01, 256)
    assert paper.learning.hindsight == 0.0


def test_the_papers_table_holds_for_mujoco_too_with_its_own_contrast():
    paper, panda = resolve("paper", {"env": "half-cheetah"}), resolve("paper")
    assert (paper.contrast.coefficient, paper.contrast.trajectories) == (1.0, 12)
    assert paper.learning.batch_transitions == 256
    same = ("actor_rate", "critic_rate", "encoder_rate", "train_every", "gradient_steps", "momentum_rate", "discount")
    for key in (*same, "critic_target_rate"):
        assert getattr(paper.learning, key) == getattr(panda.learning, key)
    assert (paper.steps, paper.network.hidden_size, paper.network.context_size) == (1_600_000, 128, 6)


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_every_preset_fits_every_environment_without_any_override(env):
    assert presets() == ["fast-cpu", "paper"]
    for name in presets():
        config = resolve(name, {"env": env, "seed": 3})
        assert from_dict(config.to_dict()) == config
        assert (config.preset, config.env) == (name, env)


@pytest.mark.parametrize(
    ("env", "paper", "fast", "entropy"),
    [
        # 100,000 and 1,000,000 transitions, but at least 12 and 16 trajectories of each of the tasks.
        ("half-cheetah", 25 * 12, 1000, -6.0),
        ("crippled-half-cheetah", 75 * 12, 75 * 16, -6.0),
        ("walker", 9 * 12, 3333, -6.0),  # it learns from 300 steps of an episode
        ("slim-humanoid-cadm", 25 * 12, 2000, -17.0),
    ],
)
def test_buffer_and_target_entropy_follow_from_the_robot_unless_they_are_given(env, paper, fast, entropy):
    learning = resolve("paper", {"env": env}).learning
    assert learning.buffer_episodes == paper
    assert learning.target_entropy == entropy
    assert resolve("fast-cpu", {"env": env}).learning.buffer_episodes == fast
    value = resolve("paper", {"env": env, "learning.buffer_episodes": 700, "learning.target_entropy": -1.5}).learning
    assert (value.buffer_episodes, value.target_entropy) == (700, -1.5)


@pytest.mark.parametrize("method", ["ccm", "satesac", "saccm"])
def test_a_buffer_that_leaves_a_contrast_nothing_to_compare_is_refused(method):
    few = {"env": "crippled-ant", "learning.buffer_episodes": 499}
    with pytest.raises(ConfigError, match=r"499, and crippled-ant has 125 training tasks.* at least 500 .*1500"):
        resolve("paper", few | {"method": method})
    resolve("paper", few | {"method": "tesac"})
    resolve("paper", few | {"method": method, "collection.tasks": [0, 1]})


def test_panda_keeps_the_target_entropy_that_it_was_trained_with():
    assert resolve("fast-cpu").learning.target_entropy == -2.0
    assert resolve("fast-cpu").learning.buffer_episodes == 24_000


def test_overrides_change_one_key():
    config = resolve(
        "fast-cpu",
        dict(map(parse_override, ["learning.discount=0.97", "network.net_arch=[64, 64]", "env=panda"])),
    )
    assert config.learning.discount == 0.97
    assert config.network.net_arch == (64, 64)
    assert config.learning.actor_rate == resolve("fast-cpu").learning.actor_rate


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"learning.discout": 0.9},
            "unknown config key 'learning.discout'. Did you mean 'learning.discount'",
        ),
        ({"lerning.discount": 0.9}, "unknown config key 'lerning'"),
        ({"steps.many": 1}, "unknown config key 'steps.many'"),
        ({"env": "pandas"}, "unknown environment 'pandas'. Did you mean 'panda'"),
        ({"env": 3}, "unknown environment '3'"),
        ({"env": "hopper", "follows.entropy_per_motor": 1}, "unknown config key 'follows'"),
        ({"contrast.pairing": "first"}, "unknown contrast.pairing 'first'.*Valid: last, one_age, prefix"),
        (
            {"method": "maml"},
            "unknown method 'maml'.*Valid: ccm, oracle, pearl, sac, sac-history, saccm, satesac, tesac",
        ),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(overrides, message):
    with pytest.raises(UnknownName) as caught:
        resolve("fast-cpu", overrides)
    import re

    assert re.search(message, str(caught.value))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learning.discount": "high"}, "learning.discount is 'high'; it must be of type float"),
        ({"learning.bf16": 1}, "learning.bf16 is 1; it must be of type bool"),
        ({"learning.target_entropy": float("nan")}, "learning.target_entropy is nan; it must be"),
        ({"learning.reward_offset": float("inf")}, "learning.reward_offset is inf; it must be"),
        ({"learning.critic_rate": float("inf")}, "learning.critic_rate is inf; it must be"),
        ({"learning.momentum_rate": 2.5}, "learning.momentum_rate is 2.5; it must be above 0 and at most 1"),
        ({"learning.target_entropy": 6.0}, "learning.target_entropy is 6 nats; 4 elements have less. Set it below 0"),
        ({"init.anchor": 2.0}, "init.anchor is 2.0 without --init, so there is no policy to stay near"),
        ({"learning.critic_target_rate": 0}, "learning.critic_target_rate is 0.0; it must be above 0 and at most 1"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"steps": 1.5}, "steps is 1.5; it must be of type int"),
        ({"learning.hindsight": 1.5}, "learning.hindsight is 1.5; it must lie between 0 and 1"),
        ({"network.net_arch": "256"}, "network.net_arch is '256'; it must be a list of whole numbers"),
        ({"seed": 1_500_007}, "seed 1500007 is reserved for episodes that judge policies; choose another"),
        ({"network.encoder_reads_goal": True}, "hindsight changes the goals"),
        ({"collection.reward": "dense"}, "hindsight.*sparse"),
        ({"learning": 3}, "learning is 3; it must be a table"),
        ({"contrast.trajectories": 3}, "contrast.trajectories is 3; it must be at least 4"),
        ({"seed": True}, "seed is True; it must be of type int"),
        ({"device": 0}, "device is 0; it must be of type str"),
        ({"learning.discount": float("nan")}, "learning.discount is nan; it must lie between 0 and 1"),
        ({"network.net_arch": [64, 0.5]}, r"network.net_arch is \[64, 0.5\]; it must be a list of whole numbers"),
        ({"collection.tasks": 0}, "collection.tasks is 0; it must be a list of whole numbers"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"collection.publish_every": 0}, "collection.publish_every is 0; it must be at least 1"),
        ({"learning.gradient_steps": 0}, "learning.gradient_steps is 0; it must be at least 1"),
        ({"learning.actor_rate": float("nan")}, "learning.actor_rate is nan; it must be a number greater than 0"),
        ({"contrast.temperature": 0.0}, "contrast.temperature is 0.0; it must be a number greater than 0"),
        ({"exploration.random_hold": [5]}, r"exploration.random_hold is \[5\]; it must be \[shortest, longest\]"),
        ({"exploration.reach_steps": [13, 6]}, r"exploration.reach_steps is \[13, 6\]"),
        ({"network.net_arch": []}, r"network.net_arch is \[\]; it must list at least one layer"),
        ({"network.encoder_units": [0]}, r"network.encoder_units is \[0\]; it must list at least one layer"),
        ({"contrast.hardness": -1.0}, "contrast.hardness is -1.0; it must be a number of at least 0"),
        (
            {
                "env": "hopper",
                "learning.hindsight": 0.8,
                "learning.clip_targets": True,
                "collection.end_on_fall": True,
            },
            "learning.hindsight, learning.clip_targets, collection.end_on_fall: only for environments with",
        ),
        ({"env": "hopper", "learning.window": 8}, "learning.burn_in is 8 and learning.window 8: the burn-in"),
        ({"learning.burn_in": 16}, "learning.burn_in is 16 and learning.window 0: the burn-in must be shorter"),
        ({"env": "go2", "learning.reward_offset": 1.0}, "learning.reward_offset is 1.0, but episodes of go2 can end"),
        ({"learning.reward_offset": -1.0}, "learning.reward_offset -1.0; learning.clip_targets needs rewards of"),
        ({"learning.reward_scale": 0.1}, "learning.reward_scale is 0.1 .*; learning.clip_targets needs rewards of"),
        ({"learning.discount": 1.0}, "with learning.clip_targets it must be below 1"),
        ({"learning.clip_targets": False}, "only clipped targets give a failed episode the worst value"),
    ],
)
def test_values_that_cannot_work_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        resolve("fast-cpu", overrides)


def test_an_unknown_preset_lists_the_presets():
    for env in ("panda", "hopper"):
        with pytest.raises(UnknownName, match=r"unknown preset 'fast'.*Valid: fast-cpu, paper"):
            resolve("fast", {"env": env})


def test_a_setting_of_the_contrast_that_is_no_more_is_read_only_where_it_did_nothing():
    assert from_dict({**WHOLE, "contrast": {**WHOLE["contrast"], "stretch": 0}}) == from_dict(WHOLE)
    with pytest.raises(UnknownName, match=r"unknown config key 'contrast\.stretch'"):
        from_dict({**WHOLE, "contrast": {**WHOLE["contrast"], "stretch": 5}})


def test_a_long_value_is_shown_by_its_beginning():
    with pytest.raises(
        ConfigError, match=r"learning\.discount is \['x', .*\.\.\.; it must be of type float"
    ) as refused:
        resolve("fast-cpu", {"learning.discount": ["x"] * 1000})
    assert len(str(refused.value)) < 200


def test_an_override_without_a_value_is_refused():
    with pytest.raises(ConfigError, match=r"'learning\.discount' is not KEY=VALUE"):
        parse_override("learning.discount")


def test_an_error_in_what_is_built_by_hand_is_explained_too():
    with pytest.raises(ConfigError, match=r"steps is 0; it must be at least 1\."):
        TrainConfig(**{**WHOLE, "steps": 0})
    with pytest.raises(ConfigError, match=r"learning\.hindsight is 2\.0; it must lie between 0 and 1\."):
        TrainConfig(**{**WHOLE, "learning": {**WHOLE["learning"], "hindsight": 2}})
    with pytest.raises(UnknownName, match=r"unknown config key 'step'. Did you mean 'steps'"):
        TrainConfig(**WHOLE, step=1)
    with pytest.raises(ConfigError, match=r"checkpoint_every is missing; .* Start from a preset"):
        TrainConfig(steps=1)


@pytest.mark.parametrize("document", one_of_each_kind())
def test_what_earlier_versions_wrote_is_read_as_it_was_meant(document, monkeypatch):
    # A robot of one's own is named by its path from where the command ran.
    monkeypatch.chdir(ROOT / "examples/own_environment")
    config = from_dict(document)
    expected = {present_key(key): value for key, value in leaves(document).items() if key != "contrast.stretch"}
    result = leaves(config.to_dict())
    assert {key: result[key] for key in expected} == expected
    assert list(result) == keys()
    if expected.keys() == result.keys():
        today = re.sub(r'"(\w+)":', lambda name: f'"{present_key(name[1])}":', json.dumps(document))
        assert json.dumps(config.to_dict()) == today


def test_whole_numbers_may_be_written_as_powers_of_ten_and_shares_as_whole_numbers():
    config = resolve("fast-cpu", {"steps": 2e5, "exploration.warmup_steps": 1e4, "exploration.random_action": 0})
    assert json.dumps([config.steps, config.exploration.warmup_steps]) == "[200000, 10000]"
    assert json.dumps(config.exploration.random_action) == "0.0"


def test_a_configuration_is_a_value():
    config = resolve("fast-cpu", {"network.net_arch": [8, 8]})
    again = from_dict(json.loads(json.dumps(config.to_dict())))
    assert config == again == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(again)
    assert config != resolve("fast-cpu")
    with pytest.raises(ValueError, match="frozen"):
        config.steps = 1
    with pytest.raises(ValueError, match="frozen"):
        config.learning.discount = 0.5


def test_a_copy_with_another_value_leaves_the_original():
    learning = resolve("fast-cpu").learning
    assert learning.model_copy(update={"steps_per_draw": 3}) == LearningConfig(
        **{**learning.model_dump(), "steps_per_draw": 3}
    )
    assert learning.steps_per_draw == 1


def test_the_gap_is_text_on_disk_and_a_profile_in_python():
    late = resolve("fast-cpu", {"gap": '{"latency_s": 0.04}'})
    assert late.to_dict()["gap"] == '{"latency_s": 0.04}'
    assert late.gap_profile.latency_s == 0.04
    assert late.model_copy(update={"gap": ""}).gap_profile is None
    assert resolve("fast-cpu").gap_profile is None


@pytest.mark.parametrize(
    ("gap", "message"),
    [
        ("late", "gap is 'late', which is no JSON"),
        ("[1]", "must be a sim-to-real profile, a table"),
        ('{"latenzy_s": 0.04}', "unknown key of a profile 'latenzy_s'. Did you mean 'latency_s'"),
        ('{"latency_s": -1}', "latency_s is -1; it must be a number of at least 0"),
        ('{"noise": {"joints": 0.1}}', "unknown observation signal 'joints'.*The gap noise names it"),
    ],
)
def test_a_gap_that_means_nothing_is_refused_with_the_configuration(gap, message):
    with pytest.raises(SamiError, match=message):
        resolve("fast-cpu", {"gap": gap})


def test_every_key_can_be_listed():
    assert {"seed", "learning.discount", "exploration.reach_steps", "network.net_arch"} <= set(keys())


def test_a_run_may_learn_from_a_few_of_the_training_tasks():
    few = resolve("fast-cpu", {"collection.tasks": [0, 5]})
    env = make_env(few)
    assert few.training_tasks() == list(env.unwrapped.tasks)
    assert few.training_tasks() == [{"mass": 1.0, "friction": 0.1}, {"mass": 10.0, "friction": 0.1}]
    assert len(resolve("fast-cpu").training_tasks()) == 6


@pytest.mark.parametrize("numbers", [[6], [-1], [2, 2]])
def test_training_tasks_that_do_not_exist_are_refused_with_those_that_do(numbers):
    with pytest.raises(ConfigError, match=r"collection\.tasks is .*0 \(mass 1, friction 0\.1\), .*5 \(mass 10"):
        resolve("fast-cpu", {"collection.tasks": numbers})


def test_a_run_may_learn_from_shorter_episodes_of_which_its_buffer_then_holds_more():
    pytest.importorskip("mujoco")
    short = resolve("fast-cpu", {"env": "hopper", "collection.episode_steps": 400})
    assert short.learning.buffer_episodes == 1_000_000 // 400
    assert make_env(short).spec.max_episode_steps == 400
    assert make_env(resolve("fast-cpu", {"env": "hopper"})).spec.max_episode_steps == 1000
    assert environment("hopper").episode_steps == 1000  # what every evaluation has


def test_an_environment_may_ask_for_values_of_its_own():
    hopper, ant = (resolve("fast-cpu", {"env": env}) for env in ("hopper", "crippled-ant"))
    assert (hopper.collection.episode_steps, ant.collection.episode_steps) == (0, 400)
    assert (hopper.learning.buffer_episodes, ant.learning.buffer_episodes) == (1000, 2500)
    assert ant.learning.train_every == hopper.learning.train_every
    whole = resolve("fast-cpu", {"env": "sami/CrippledAnt-v0", "collection.episode_steps": 0})
    assert (whole.collection.episode_steps, whole.learning.buffer_episodes) == (0, 125 * 16)


def test_episodes_may_be_ten_times_as_long_for_a_robot_that_is_slower():
    long = resolve("fast-cpu", {"env": "panda", "collection.episode_steps": 150})
    assert make_env(long).spec.max_episode_steps == 150
    assert long.learning.buffer_episodes == 8000  # as many transitions


@pytest.mark.parametrize("steps", [-1, 501, "long"])
def test_episodes_are_not_made_longer_than_that(steps):
    with pytest.raises(ConfigError, match=rf"collection\.episode_steps is '?{steps}"):
        resolve("fast-cpu", {"collection.episode_steps": steps})
