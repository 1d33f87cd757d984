"""Laws that every adapter keeps, and what each one does besides."""

import warnings

import gymnasium
import numpy as np
import pytest

from sami_runtime.adapters import (
    FakeAdapter,
    Gapped,
    GymnasiumAdapter,
    PandaAdapter,
)
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_EPISODE_STEPS, PANDA_OBSERVATION, PANDA_RATE_HZ
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.signals import Signal, SignalSource


def box(size, bound=10.0):
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)


class ArmEnv(gymnasium.Env):
    """A Dict environment of panda-gym's layout, whose observation counts its own indices."""

    action_space = box(4, 1.0)
    observation_space = gymnasium.spaces.Dict(
        {"observation": box(19, 100.0), "achieved_goal": box(3, 100.0), "desired_goal": box(3, 100.0)}
    )

    def __init__(self):
        self.actions, self.closed, self.steps = [], 0, 0

    def _observe(self):
        return {
            "observation": np.arange(19, dtype=np.float32) + self.steps,
            "achieved_goal": np.arange(30, 33, dtype=np.float32),
            "desired_goal": np.arange(40, 43, dtype=np.float32),
        }

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.seed = 0, seed
        return self._observe(), {}

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        return self._observe(), -1.0, self.steps == 3, False, {"task": {"mass": 2.0}}

    def render(self):
        return "an image"

    def close(self):
        self.closed += 1


class LineEnv(gymnasium.Env):
    """A Box environment: position, velocity."""

    action_space = box(1, 1.0)
    observation_space = box(2)

    def reset(self, seed=None, options=None):
        return np.array([0.5, 0.0], np.float32), {}

    def step(self, action):
        return np.array([0.6, 0.1]), 1.0, False, True, {}


def signal(name, unit="m", elements=("x",)):
    bounds = (None,) * len(elements)
    return Signal(name=name, size=len(elements), unit=unit, elements=elements, low=bounds, high=bounds)


def line_adapter(clock=None):
    sources = [SignalSource(signal("velocity", "m/s"), start=1), SignalSource(signal("position"))]
    return GymnasiumAdapter(LineEnv(), sources, signal("push", "N"), clock)


def panda_gym_adapter():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("panda_gym", reason="from Python 3.12 on it has no wheels")  # registers the environment
        return PandaAdapter(gymnasium.make("PandaPickAndPlace-v3").unwrapped)


MAKERS = {
    "fake": lambda: FakeAdapter(axes=2),
    "gapped": lambda: Gapped(FakeAdapter(axes=2), GapProfile(noise=0.01, actuator_lag_s=0.02), 25.0),
    "gymnasium": line_adapter,
    "panda": lambda: PandaAdapter(ArmEnv()),
    "panda-gym": panda_gym_adapter,
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def adapter(request):
    instance = request.param()
    yield instance
    instance.close()


def test_signals_are_readable_before_reset(adapter):
    assert adapter.observation
    assert adapter.action.size >= 1


def test_reading_before_reset_is_refused(adapter):
    with pytest.raises(AdapterError, match=r"Call reset\(\) first"):
        adapter.read()
    with pytest.raises(AdapterError, match=r"Call reset\(\) first"):
        adapter.write(np.zeros(adapter.action.size, np.float32))


def test_what_is_read_matches_the_signals(adapter):
    adapter.reset(seed=1)
    first = adapter.read()
    adapter.write(np.zeros(adapter.action.size, np.float32))
    second = adapter.read()
    assert second.time >= first.time
    for observation in (first, second):
        assert set(observation.values) == {signal.name for signal in adapter.observation}
        for signal_ in adapter.observation:
            value = observation.values[signal_.name]
            assert value.dtype == np.float32
            assert value.shape == (signal_.size,)
            assert np.isfinite(value).all()


def test_write_says_what_was_executed(adapter):
    adapter.reset(seed=1)
    action = np.full(adapter.action.size, 0.25, np.float32)
    np.testing.assert_array_equal(adapter.write(action).action, action)
    beyond = adapter.write(np.full(adapter.action.size, 7.0, np.float32)) if adapter_goes_on(adapter) else None
    if beyond:
        np.testing.assert_array_equal(beyond.action, np.ones(adapter.action.size))


def adapter_goes_on(adapter):
    return not (isinstance(adapter, GymnasiumAdapter) and isinstance(adapter.env, LineEnv))


@pytest.mark.parametrize("action", [np.nan, np.inf])
def test_an_action_that_is_not_finite_is_refused(adapter, action):
    adapter.reset(seed=1)
    with pytest.raises(AdapterError, match="finite numbers"):
        adapter.write(np.full(adapter.action.size, action, np.float32))


def test_an_action_of_another_size_is_refused(adapter):
    adapter.reset(seed=1)
    with pytest.raises(AdapterError, match="finite numbers"):
        adapter.write(np.zeros(9, np.float32))


def test_the_same_seed_gives_the_same_episode(adapter):
    first_values = []
    for _ in range(2):
        adapter.reset(seed=3)
        adapter.write(np.full(adapter.action.size, 0.5, np.float32))
        first_values.append(adapter.read().values)
    for name in first_values[0]:
        np.testing.assert_array_equal(first_values[0][name], first_values[1][name])


def test_stop_is_safe_at_any_time_and_twice(adapter):
    adapter.stop()
    adapter.reset(seed=1)
    adapter.stop()
    adapter.stop()
    adapter.close()
    adapter.stop()


def test_close_is_safe_after_a_failure_and_twice(adapter):
    adapter.reset(seed=1)
    with pytest.raises(AdapterError):
        adapter.write(np.zeros(9, np.float32))
    adapter.close()
    adapter.close()
    with pytest.raises(AdapterError, match="closed"):
        adapter.reset()


def test_panda_signals_come_from_panda_gyms_places():
    adapter = PandaAdapter(ArmEnv())
    adapter.reset()
    values = {name: value.tolist() for name, value in adapter.read().values.items()}
    assert values == {
        "ee_position": [0, 1, 2],
        "ee_velocity": [3, 4, 5],
        "gripper_width": [6],
        "cube_position": [7, 8, 9],
        "cube_rotation": [10, 11, 12],
        "cube_velocity": [13, 14, 15],
        "cube_angular_velocity": [16, 17, 18],
        "achieved_goal": [30, 31, 32],
        "desired_goal": [40, 41, 42],
    }
    assert [s.name for s in PANDA_OBSERVATION] == [
        *("cube_position", "cube_rotation", "cube_velocity", "cube_angular_velocity"),
        *("ee_position", "ee_velocity", "gripper_width", "desired_goal", "achieved_goal"),
    ]


def test_panda_gyms_own_numbers_are_where_the_adapter_says():
    adapter = panda_gym_adapter()
    try:
        adapter.reset(seed=0)
        adapter.write(np.array([0.5, -0.5, 0.2, 1.0], np.float32))
        values, env = adapter.read().values, adapter.env
        robot, sim = env.robot, env.task.sim
        np.testing.assert_allclose(values["ee_position"], robot.get_ee_position(), atol=1e-6)
        np.testing.assert_allclose(values["ee_velocity"], robot.get_ee_velocity(), atol=1e-6)
        np.testing.assert_allclose(values["gripper_width"], [robot.get_fingers_width()], atol=1e-6)
        np.testing.assert_allclose(values["cube_position"], sim.get_base_position("object"), atol=1e-6)
        np.testing.assert_allclose(values["cube_rotation"], sim.get_base_rotation("object"), atol=1e-6)
        np.testing.assert_allclose(values["cube_velocity"], sim.get_base_velocity("object"), atol=1e-6)
        angular = sim.get_base_angular_velocity("object")
        np.testing.assert_allclose(values["cube_angular_velocity"], angular, atol=1e-6)
        np.testing.assert_allclose(values["desired_goal"], env.task.get_goal(), atol=1e-6)
        np.testing.assert_allclose(values["achieved_goal"], values["cube_position"], atol=1e-6)
        assert pytest.approx(1 / (sim.n_substeps * sim.timestep)) == PANDA_RATE_HZ
        assert gymnasium.spec("PandaPickAndPlace-v3").max_episode_steps == PANDA_EPISODE_STEPS
        space = env.observation_space["observation"]
        assert (space.low == -10).all()
        assert PANDA_OBSERVATION[0].low == (-10.0,) * 3
        assert env.action_space.shape == (PANDA_ACTION.size,)
    finally:
        adapter.close()


def test_a_gymnasium_episode_ends_with_its_info():
    env = ArmEnv()
    adapter = PandaAdapter(env)
    adapter.reset(seed=5)
    assert env.seed == 5
    ends = [adapter.write(np.full(4, 2.0, np.float32)) for _ in range(3)]
    assert [end.done for end in ends] == [False, False, True]
    expected = {"task": {"mass": 2.0}, "reward": -1.0, "terminated": True, "truncated": False}
    assert ends[-1].info == expected
    np.testing.assert_array_equal(env.actions, np.ones((3, 4)))
    with pytest.raises(AdapterError, match="the episode is over"):
        adapter.write(np.zeros(4, np.float32))
    assert adapter.render() == "an image"
    adapter.close()
    adapter.close()
    assert env.closed == 1


def test_truncation_ends_an_episode_too():
    adapter = line_adapter()
    adapter.reset()
    assert adapter.write(np.zeros(1, np.float32)).done


def test_an_observation_is_stamped_when_it_was_made_and_not_when_it_was_read():
    clock = ManualClock(start=3.0)
    for adapter in (line_adapter(clock), FakeAdapter(clock=clock)):
        adapter.reset()
        stamp = clock.now()
        clock.advance(2.0)
        assert adapter.read().time == stamp


def test_what_was_read_can_be_written_into():
    adapter = line_adapter()
    adapter.reset()
    adapter.read().values["position"][:] = 9.0
    np.testing.assert_array_equal(adapter.read().values["position"], np.float32([0.5]))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            SignalSource(signal("p"), start=2),
            r"'p' is numbers 2 to 2 of the observation, whose shape is \(2,\)",
        ),
        (SignalSource(signal("p"), start=-1), "'p' is numbers -1 to -1"),
        (SignalSource(signal("p"), key="robot"), "lies in 'robot'; the environment observes no entries"),
    ],
)
def test_a_signal_outside_the_observation_is_refused(source, message):
    with pytest.raises(AdapterError, match=message):
        GymnasiumAdapter(LineEnv(), [source], signal("push", "N"))


def test_an_environment_of_another_layout_is_refused():
    with pytest.raises(AdapterError, match="lies in 'observation'; the environment observes no entries"):
        PandaAdapter(LineEnv())
    with pytest.raises(AdapterError, match=r"action space is Box.*expected a Box of shape \(2,\)"):
        GymnasiumAdapter(LineEnv(), [], signal("push", "N", ("x", "y")))


def test_the_fakes_mass_moves_as_newton_says():
    adapter = FakeAdapter(axes=2, mass=2.0, period=0.1)
    adapter.reset(seed=0)
    start = adapter.read().values["position"]
    for _ in range(10):
        result = adapter.write(np.array([0.5, 3.0], np.float32))
    np.testing.assert_array_equal(result.action, np.float32([0.5, 1.0]))
    values = adapter.read().values
    np.testing.assert_allclose(values["velocity"], [0.25, 0.5], atol=1e-6)  # F / m t
    distance = np.array([0.25, 0.5]) * 0.1 * 5.5  # mean of v over 10 steps is 5.5 / 10 of the last
    np.testing.assert_allclose(values["position"], start + distance, atol=1e-6)


def test_the_fake_records_what_was_done_and_fails_as_scripted():
    adapter = FakeAdapter(raise_at_reads=[1], nan_at_reads=[0], raise_at_writes=[1], episode_steps=1)
    adapter.reset()
    assert np.isnan(adapter.read().values["position"][0])
    with pytest.raises(AdapterError, match="read 1 fails"):
        adapter.read()
    assert adapter.write(np.array([3.0], np.float32)).done
    with pytest.raises(AdapterError, match="write 1 fails"):
        adapter.write(np.array([3.0], np.float32))
    adapter.stop()
    assert (adapter.reads, adapter.writes, adapter.resets, adapter.stops) == (2, 2, 1, 1)
    np.testing.assert_array_equal(adapter.written, [[3.0]])
