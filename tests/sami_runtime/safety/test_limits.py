"""Limits as people write them: every mistake is named, with what would be valid, before anything moves."""

import json
import math

import numpy as np
import pytest

from sami_runtime import read_artifact, shipped_models
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.training_ranges import Spread, TrainingRanges
from sami_runtime.recording.format import plain
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Signal
from tests.making import looking

FULL = """
low = -0.5
high = { fx = 0.25 }
rate = 2.0
acceleration = { fx = 10.0, fy = 20.0 }
rest = 0.0
blend_in_s = 0.5
deadline_s = 0.01
max_age_s = inf
hold_ticks = 0
stop_after = 1

[frozen]
position = 5
"""


@pytest.fixture
def write_limits(tmp_path):
    def write(text, name="limits.toml"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


@pytest.fixture
def contract(make):
    return make.contract_of(make.recurrent())


def test_toml_and_json_say_the_same(write_limits):
    limits = Limits.load(write_limits(FULL))
    assert (limits.high, limits.max_age_s, limits.frozen) == ({"fx": 0.25}, math.inf, {"position": 5})
    document = {key: value for key, value in limits.model_dump().items() if key != "max_age_s"}
    assert Limits.load(write_limits({**document, "max_age_s": 1e999}, "limits.json")) == limits


@pytest.mark.parametrize(
    "text",
    [
        '[inside]\nposition.x = [-0.5, 0.5]\nposition.y = { range = [0, 1], then = "stop" }',
        '[inside]\n"position.x" = [-0.5, 0.5]\n"position.y" = { range = [0, 1], then = "stop" }',
        '[inside.position]\nx = { range = [-0.5, 0.5] }\ny = { range = [0.0, 1.0], then = "stop" }',
    ],
)
def test_an_element_may_be_written_in_the_ways_of_toml(write_limits, text):
    inside = Limits.load(write_limits(text)).inside
    assert {name: (item.range, item.then) for name, item in inside.items()} == {
        "position.x": ((-0.5, 0.5), "hold"),
        "position.y": ((0.0, 1.0), "stop"),
    }


def test_what_a_recording_says_of_limits_can_be_loaded_again(write_limits):
    limits = Limits.load(
        write_limits(
            'out_of_bounds = "stop"\nstop_on_alarm = 5\nmax_age_s = { goal = 0.5 }\n[jump]\nposition.x = 0.1\n'
            "[inside]\nposition.x = [0, 1]\n[workspace]\nposition.x = [0, 1]\n"
            '[moves]\nfx = { element = "position.x", scale = 0.05 }'
        )
    )
    document = {name: value for name, value in plain(limits.model_dump()).items() if value is not None}
    assert Limits.load(write_limits(document, "limits.json")) == limits


def test_an_empty_file_is_the_defaults(write_limits):
    assert Limits.load(write_limits("")) == Limits()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"rat": 1.0}, "rat: unknown key 'rat'. Did you mean 'rate'?"),
        (
            {"stop_on_alarm": {"steps": 3, "scor": 2}},
            "stop_on_alarm.scor: unknown key 'scor'. Did you mean 'score'? Valid: score, steps, the",
        ),
        (
            {"moves": {"dx": {"elemnt": "a.b"}}},
            "moves.dx.elemnt: unknown key 'elemnt'. Did you mean 'element'? Valid: element, scale",
        ),
        (
            {"known": {"ee.x": {"valu": 1}}},
            "known.ee.x.valu: unknown key 'valu'. Did you mean 'value'? Valid: most, still, value",
        ),
        ({"rate": -1.0}, "rate: input should be greater than 0, and it is -1.0."),
        ({"rate": {"fx": 0}}, "rate.fx: input should be greater than 0, and it is 0."),
        ({"rate": "fast"}, "rate: input should be a valid number, and it is 'fast'."),
        ({"rate": True}, "rate: input should be a valid number, and it is True."),
        ({"low": math.nan}, "low: must be a number, and it is nan."),
        ({"rest": {"fx": math.nan}}, "rest.fx: must be a number, and it is nan."),
        ({"rest": [0.0, 0.0]}, "rest: input should be a valid number, and it is [0.0, 0.0]."),
        ({"max_age_s": {"goal": 0}}, "max_age_s.goal: input should be greater than 0, and it is 0."),
        ({"max_age_s": math.nan}, "max_age_s: input should be greater than 0, and it is nan."),
        ({"blend_in_s": math.inf}, "blend_in_s: input should be a finite number, and it is inf."),
        ({"hold_ticks": 2.5}, "hold_ticks: input should be a valid integer, and it is 2.5."),
        ({"stop_after": 0}, "stop_after: input should be greater than or equal to 1, and it is 0."),
        ({"frozen": {"position": 1}}, "frozen.position: input should be greater than or equal to 2, and it is 1."),
        ({"inside": {"position.x": [1, 0]}}, "inside.position.x: must be [lowest, highest], and it is [1, 0]."),
        ({"inside": {"position": {"x": 3}}}, "inside.position.x: must be [lowest, highest], and it is 3."),
        ({"inside": {"position.x": {"then": "stop"}}}, "inside.position.x.range: field required."),
        (
            {"inside": {"position.x": {"range": [0, 1], "then": "halt"}}},
            "inside.position.x.then: input should be 'hold', 'rest' or 'stop', and it is 'halt'.",
        ),
        (
            {"inside": {"position.x": [0, 1], "position": {"x": [0, 1]}}},
            "inside: must name position.x once, and it is {",
        ),
        ({"jump": {"position.x": 0}}, "jump.position.x: input should be greater than 0, and it is 0."),
        ({"workspace": {"position": {"x": [0, math.nan]}}}, "workspace.position.x.1: must be a number, and it is nan."),
        ({"moves": {"fx": {"element": "position.x", "scale": 0}}}, "moves.fx: must not be 0: it says how far a unit"),
        ({"stop_on_alarm": 0}, "stop_on_alarm: input should be greater than or equal to 1, and it is 0."),
        (
            {"out_of_bounds": "halt"},
            "out_of_bounds: input should be 'hold', 'rest', 'stop' or 'act', and it is 'halt'.",
        ),
        ({"max_pause_s": 0}, "max_pause_s: input should be greater than 0, and it is 0."),
        ([1], "holds a list; expected a table of limits."),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_valid(write_limits, document, message):
    with pytest.raises(SamiError) as caught:
        Limits.load(write_limits(document, "limits.json"))
    assert message in str(caught.value)
    assert "limits.json" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("limits.yaml", "rate: 1", "limits.yaml is no file of limits; give the path of a file NAME.toml or NAME.json."),
        ("limits.toml", "rate = ", "limits.toml cannot be read: Invalid value"),
        ("limits.json", "{", "limits.json cannot be read: Expecting property name"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(write_limits, name, text, message):
    with pytest.raises(SamiError, match=message):
        Limits.load(write_limits(text, name))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SamiError, match=r"none\.toml cannot be read: .*No such file"):
        Limits.load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Limits(rate={"dx": 1.0}, rest=0.0),
            "unknown element of the action 'dx'. Valid: fx, fy. The limit rate names it.",
        ),
        (Limits(frozen={"positions": 3}), "unknown observation signal 'positions'. Did you mean 'position'?"),
        (Limits(max_age_s={"gaol": 3.0}), "unknown observation signal 'gaol'. Did you mean 'goal'?"),
        (
            Limits(inside={"position.z": [0, 1]}),
            "unknown element of an observation 'position.z'. Did you mean 'position.y'? Valid: goal.x, position.x, "
            "position.y. The limit inside names it.",
        ),
        (Limits(jump={"positions.x": 1.0}), "unknown element of an observation 'positions.x'. Did you mean"),
        (Limits(out_of_bounds={"gaol": "act"}), "unknown observation signal 'gaol'. Did you mean 'goal'?"),
        (
            Limits(inside={"position.x": {"range": [0, 1], "then": "rest"}}),
            'the limits set then = "rest" for inside.position.x, but no rest',
        ),
        (Limits(out_of_bounds="rest"), 'the limits set then = "rest" for out_of_bounds, but no rest'),
        (Limits(rest="goals"), "unknown observation signal 'goals'. Did you mean 'goal'?"),
        (Limits(rate=1.0), "the limits set rate, but no rest: the first action would have nothing to start from."),
        (Limits(rate={}), "the limits set rate, but no rest"),
        (Limits(acceleration=1.0, blend_in_s=1.0), "the limits set acceleration and blend_in_s, but no rest"),
        (Limits(low=0.5, high=0.25), "the limits leave no action: fx must be at least 0.5 and at most 0.25 [N]"),
        (Limits(low=2.0), "the limits leave no action: fx must be at least 2 and at most 1 [N]"),
        (Limits(rest={"fx": 0.0}), "rest lacks fy; it must give every element of the action."),
        (Limits(rest=3.0), "rest is [3.0, 3.0], beyond the bounds [-1.0, -1.0] to [1.0, 1.0] [N]."),
        (Limits(rest="goal"), "rest is the signal 'goal' (1, m), the action has (2, N)."),
    ],
)
def test_limits_that_do_not_fit_the_model_are_refused(contract, limits, message):
    with pytest.raises(SamiError) as caught:
        limits.require_fit(contract)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Limits(high={"fx": 57.3}),
            "high.fx is 57.3 [rad], which must be a mistake: the model's bounds are -1 to 1, so",
        ),
        (Limits(high={"fx": 57.3}), "In degrees? Then it is 1 rad. Correct it, or leave it out."),
        (Limits(low=-86), "low is -86 [rad]"),
        (Limits(rate=600.0, rest=0.0), "In degrees/s? Then it is 10.47 rad/s."),
        (Limits(acceleration={"fy": 1e5}, rest=0.0), "acceleration.fy is 100000 [rad/s^2], which must be a mistake"),
        (
            Limits(inside={"elbow.x": [-120, 120]}),
            "inside.elbow.x is -120 [rad], which must be a mistake: that is 19",
        ),
        (Limits(inside={"shoulder.x": [-1.0, 86]}), "inside.shoulder.x is 86 [rad]"),
        (Limits(jump={"goal.x": 500}), "the model's bounds are -1 to 1, so it would never limit anything. In mm? "),
        (Limits(inside={"goal.x": [-300, 300]}), "Then it is -0.3 m."),
        (Limits(deadline_s=40.0), "In ms? Then it is 0.04 s. Correct it, or set inf, which limits nothing."),
        (
            Limits(max_age_s={"goal": 120.0}),
            "max_age_s.goal is 120 [s], which must be a mistake: more than 1000 periods",
        ),
        (Limits(max_pause_s=400.0), "max_pause_s is 400 [s]"),
        (Limits(blend_in_s=500.0, rest=0.0), "Then it is 0.5 s."),
    ],
)
def test_a_limit_in_a_wrong_unit_is_refused_with_a_guess_of_it(make, limits, message):
    with pytest.raises(SamiError) as caught:
        limits.require_fit(in_radians(make))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(workspace={"ee_position.x": [-300, 150]}),
        Limits(inside={"ee_position.x": [-300, 150]}),
        Limits(jump={"ee_position.x": 100}),
    ],
)
def test_millimetres_are_refused_where_training_saw_a_tenth_of_a_metre_though_the_bounds_are_10_m(limits):
    with pytest.raises(SamiError, match=r"must be a mistake: in training it was -0\.\d+ to 0\.\d+, .* In mm\?"):
        limits.require_fit(read_artifact(shipped_models()["panda-satesac"]).contract)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(low=-1.2, high={"fx": 3.0}, rate=25.0, acceleration=5000.0, rest=0.0),
        Limits(low=-math.inf, high=math.inf, rate=math.inf, acceleration=math.inf, rest=0.0),
        Limits(deadline_s=math.inf, max_age_s=math.inf, max_pause_s=math.inf),
        Limits(inside={"elbow.x": [-math.inf, 6.3], "shoulder.x": [-3, 3], "goal.x": [-2, 5]}, max_age_s=10.0),
    ],
)
def test_a_limit_that_is_wide_or_infinite_on_purpose_is_accepted(make, limits):
    limits.require_fit(in_radians(make))


def test_a_range_within_the_models_bounds_is_accepted_where_training_saw_a_constant(make):
    constant = {name: (0.004,) for name in ("mean", "lowest", "rare_low", "rare_high", "highest")}
    ranges = TrainingRanges(
        measured="by hand", steps=9, episodes=1, begin={}, signals={"goal": Spread(deviation=(0.0,), **constant)}
    )
    contract = in_radians(make).model_copy(update={"training_ranges": ranges})
    Limits(inside={"goal.x": [-1.0, 1.0]}).require_fit(contract)
    with pytest.raises(SamiError, match=r"is -300 \[m\], which must be a mistake: in training it was 0\.004"):
        Limits(inside={"goal.x": [-300, 300]}).require_fit(contract)


def test_one_number_for_all_elements_is_for_those_that_it_can_limit(make):
    signal = make.action_signal.model_copy(update={"high": (1.0, 0.01), "low": (-1.0, -0.01)})
    contract = make.contract_of(make.recurrent(), action=signal)
    Limits(high=0.5, rate=12.5, rest=0.0).require_fit(contract)
    with pytest.raises(SamiError, match=r"high\.fy is 0\.5 \[N\]"):
        Limits(high={"fy": 0.5}).require_fit(contract)


def in_radians(make):
    """A contract with an action and two joints in rad, of which the elbow has no bounds, and a goal in m."""
    action = make.action_signal.model_copy(update={"unit": "rad"})
    joint = {"size": 1, "unit": "rad", "elements": ("x",)}
    observation = (
        Signal(name="elbow", **joint, low=(None,), high=(None,)),
        Signal(name="shoulder", **joint, low=(-3.0,), high=(3.0,)),
        Signal(name="goal", size=1, unit="m", elements=("x",), low=(-1.0,), high=(1.0,)),
    )
    return make.contract_of(make.recurrent()).model_copy(update={"action": action, "observation": observation})


def test_a_limit_that_names_an_unknown_element_lists_those_that_exist(contract):
    with pytest.raises(UnknownName) as caught:
        Limits(low={"x": 0.0}).require_fit(contract)
    assert caught.value.valid == ("fx", "fy")


def test_the_tighter_of_contract_and_limits_counts(make):
    low, high = Limits(low=-5.0, high={"fy": 0.25}).bounds(make.action_signal)
    np.testing.assert_array_equal(low, np.float32([-1.0, -1.0]))
    np.testing.assert_array_equal(high, np.float32([1.0, 0.25]))
    free = make.action_signal.model_copy(update={"low": (None, None), "high": (None, None)})
    np.testing.assert_array_equal(Limits(low={"fx": -5.0}).bounds(free)[0], np.float32([-5.0, -np.inf]))


def test_the_oldest_observation_is_one_of_three_periods_where_the_limits_do_not_say(contract):
    periods = 3 / contract.rate_hz
    assert Limits().max_age(contract) == {"position": periods, "goal": periods}
    for seconds in (0.5, math.inf):
        assert Limits(max_age_s=seconds).max_age(contract) == {"position": seconds, "goal": seconds}
    assert Limits(max_age_s={"goal": 9.0}).max_age(contract) == {"position": periods, "goal": 9.0}


@pytest.mark.parametrize("steps", [2, 5])
def test_a_file_that_looks_farther_ahead_may_observe_as_late_as_it_was_fitted_for(steps):
    contract = looking.contract_of(steps)
    periods = max(3, steps) / contract.rate_hz
    assert Limits().max_age(contract) == {"position": periods, "velocity": periods}
    assert Limits(max_age_s={"velocity": 0.1}).max_age(contract) == {"position": periods, "velocity": 0.1}
    assert Limits(max_age_s=0.1).max_age(contract) == {"position": 0.1, "velocity": 0.1}


def test_a_bias_is_not_taken_out_of_the_signal_that_measures_the_neutral_action(make):
    """The robot holds by what its sensor reads: the first action would move it by the bias, whatever the rate."""
    joints = make.action_signal.model_copy(update={"name": "joints"})
    contract = make.contract_of(make.recurrent(), observation=(joints, *make.observation_signals), action=joints)
    limits = {"rest": "joints", "rate": 0.1}
    Limits(**limits, known={"position.x": 0.0}).require_fit(contract)
    with pytest.raises(SamiError, match=r"known\.joints\.fy shifts rest, and the first action would jump by it"):
        Limits(**limits, known={"joints.fy": 1.0}).require_fit(contract)


@pytest.mark.parametrize("rest", [math.inf, -math.inf, 1e39, {"fx": 0.0, "fy": 1e39}])
def test_a_rest_that_is_no_finite_action_is_refused_also_where_nothing_bounds_it(make, rest):
    unbounded = make.action_signal.model_copy(update={"low": (None, None), "high": (None, None)})
    with pytest.raises(SamiError, match="which is no finite float32"):
        Limits(rest=rest).require_fit(make.contract_of(make.recurrent(), action=unbounded))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rest": 0.0, "rest": 1.0}', "the key 'rest' comes twice"),
        ('{"rest": ' + "[" * 100_000, "cannot be read"),
        ("rest = " + "[" * 100_000, "cannot be read"),
        (" " * (5 * 1024 * 1024), "it is larger than 4194304 bytes"),
    ],
)
def test_a_document_that_can_be_read_in_two_ways_or_has_no_end_is_refused(tmp_path, text, message):
    path = tmp_path / ("limits.json" if text.startswith(("{", " ")) else "limits.toml")
    path.write_text(text)
    with pytest.raises(SamiError, match=message):
        Limits.load(path)
