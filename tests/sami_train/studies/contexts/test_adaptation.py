"""Dynamics change in the middle of an episode: in the simulator, and in nothing else but what is compared."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sami_runtime.errors import CheckFailed, SamiError, UnknownName
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.contract import Context
from sami_runtime.session.session import Session
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.envs.measure import RETURN, SUCCESS
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.tasks import TaskError
from sami_train.studies.contexts.adaptation import Delay, Mean, judge
from sami_train.studies.contexts.changed_episodes import (
    ChangedEpisode,
    ChangedEpisodes,
    ChangeError,
    DynamicsChange,
    PolicyHead,
    Variant,
)

MODEL = Path(__file__).parents[4] / "models" / "panda-satesac.onnx"
PANDA = environment("panda")
LIGHT, HEAVY = {"mass": 1.0, "friction": 0.1}, {"mass": 30.0, "friction": 10.0}
SEEDS, STEP = (3, 6), 4


class World(NamedTuple):
    """Episodes of every variant, and those that had the new dynamics from the start."""

    runner: ChangedEpisodes
    starts: list
    runs: dict


@pytest.fixture(scope="module")
def world():
    runner = ChangedEpisodes(MODEL, PANDA, 2)
    starts = runner.round(SEEDS, DynamicsChange(HEAVY, HEAVY, STEP), Variant.LIVE)
    runs = {item: runner.round(SEEDS, DynamicsChange(LIGHT, HEAVY, STEP), item, starts) for item in Variant}
    yield World(runner, starts, runs)
    runner.close()


def same(start, other):
    return all(a.tobytes() == b.tobytes() for a, b in zip(start[:4], other[:4], strict=True)) and start[4:] == other[4:]


def test_until_the_change_all_variants_are_the_same_episode_bit_for_bit(world):
    for row in range(2):
        live = world.runs[Variant.LIVE][row]
        assert len(live.actions) > STEP + 1
        for run in (runs[row] for runs in world.runs.values()):
            assert run.actions[:STEP].tobytes() == live.actions[:STEP].tobytes()
            assert run.given_context[:STEP].tobytes() == live.given_context[:STEP].tobytes()


def test_from_the_change_on_each_variant_is_given_its_own_context(world):
    for row, start in enumerate(world.starts):
        of = {variant: runs[row] for variant, runs in world.runs.items()}
        live = of[Variant.LIVE]
        assert (of[Variant.FROZEN].given_context[STEP:] == live.contexts[STEP]).all()
        constant = of[Variant.CONSTANT].given_context
        assert (constant[STEP:] == constant[STEP]).all()
        assert constant[STEP].tobytes() not in (live.contexts[STEP].tobytes(), live.contexts[0].tobytes())
        for t, value in enumerate(of[Variant.START].given_context[STEP:], STEP):
            np.testing.assert_array_equal(value, start.context(t))
        for episode in (live, of[Variant.RESET], of[Variant.UNCHANGED]):
            np.testing.assert_array_equal(episode.given_context, episode.contexts)
        # The observation at the change knows nothing of it yet; only the reset one has forgotten what was before.
        assert of[Variant.FROZEN].contexts[STEP].tobytes() == live.contexts[STEP].tobytes()
        assert of[Variant.RESET].contexts[STEP].tobytes() != live.contexts[STEP].tobytes()
        assert not same(live, of[Variant.UNCHANGED])
        assert not same(live, of[Variant.FROZEN])


def test_the_live_variant_is_the_episode_that_a_session_drives(world):
    env, session = make(PANDA), Session.load(MODEL)
    observation, _ = env.reset(seed=SEEDS[0], options={"task": LIGHT})
    adapter = make_adapter(PANDA, env)
    adapter._keep(observation)
    for t, (action, context) in enumerate(zip(*(world.runs[Variant.LIVE][0][i] for i in (2, 0)), strict=True)):
        if t == STEP:
            env.unwrapped.set_dynamics(HEAVY)
        answer = session.step(adapter.read().values)
        np.testing.assert_allclose(answer.action, action, atol=1e-5)
        np.testing.assert_allclose(answer.context, context, atol=1e-5)
        adapter._keep(env.step(action.copy())[0])
    env.close()


def test_a_change_to_the_same_dynamics_changes_nothing(world):
    unchanged = DynamicsChange(LIGHT, LIGHT, STEP)
    starts = world.runner.round(SEEDS, unchanged, Variant.LIVE)
    for variant in (Variant.START, Variant.UNCHANGED):
        for start, other in zip(starts, world.runner.round(SEEDS, unchanged, variant, starts), strict=True):
            assert same(start, other)
    for start, other in zip(starts, world.runs[Variant.UNCHANGED], strict=True):
        assert same(start, other)


def test_pandas_dynamics_change_in_the_middle_of_an_episode():
    pytest.importorskip("panda_gym")
    env = make(PANDA).unwrapped
    env.reset(seed=0, options={"task": {"mass": 5.0, "friction": 0.1}})
    physics, bodies = env.sim.physics_client, env.sim._bodies_idx
    cube = bodies["object"]
    physics.resetBaseVelocity(cube, [0.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    slowdowns = []
    for friction, mass in ((0.1, 5.0), (1.0, 10.0)):
        env.set_dynamics({"mass": mass, "friction": friction})
        assert physics.getDynamicsInfo(cube, -1)[0] == mass
        assert physics.getDynamicsInfo(cube, -1)[2] == pytest.approx([mass * 0.04**2 / 6] * 3, rel=1e-3)
        assert physics.getDynamicsInfo(bodies["table"], -1)[1] == friction
        before = physics.getBaseVelocity(cube)[0][1]
        for _ in range(8):
            physics.stepSimulation()
        slowdowns.append(before - physics.getBaseVelocity(cube)[0][1])
    # Ten times the friction slows ten times as much, at once, whatever the mass.
    assert slowdowns[1] / slowdowns[0] == pytest.approx(10.0, rel=0.2)
    with pytest.raises(TaskError, match="mass is -1; it must be a number greater than 0 kg"):
        env.set_dynamics({"mass": -1, "friction": 0.5})
    assert physics.getDynamicsInfo(bodies["table"], -1)[1] == 1.0
    assert env.current_task == {"mass": 10.0, "friction": 1.0}
    env.close()


def test_a_mujoco_joint_dies_in_the_middle_of_an_episode():
    spec = environment("crippled-half-cheetah")
    env = make(spec, tasks={"mass": 1.0, "damping": 1.0}).unwrapped
    env.reset(seed=0)
    nominal = env.model.body_mass.copy(), env.model.dof_damping.copy()
    env.step(np.ones(6, np.float32))
    assert env.data.ctrl.tolist() == [1.0] * 6
    change = DynamicsChange.parse("mass=1:2,damping=1:0.5,crippled=none:3@50", spec.tasks, spec.episode_steps)
    env.set_dynamics(change.after)
    np.testing.assert_allclose(env.model.body_mass, nominal[0] * 2.0)
    np.testing.assert_allclose(env.model.dof_damping, nominal[1] * 0.5)
    env.step(np.ones(6, np.float32))
    assert env.data.ctrl.tolist() == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    env.close()


@pytest.mark.parametrize("text", ["mass=1:10,friction=0.1@5", "mass=5,friction=0:30@49", "mass=2:2,friction=1@1"])
def test_a_change_is_written_as_it_is_read(text):
    change = DynamicsChange.parse(text, PANDA_TASKS, 50)
    assert str(change) == text
    assert DynamicsChange.parse(f" {text.replace(',', ' , ').replace('@', ' @ ')}", PANDA_TASKS, 50) == change


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("mass=1:10,friction=1", ChangeError, "is no change of dynamics; write FEATURE=FROM:TO"),
        ("mass=1:10,friction=1@soon", ChangeError, "is no change of dynamics"),
        ("mass@5", ChangeError, "is no change of dynamics"),
        ("mass=1,friction=1@5", ChangeError, "changes nothing"),
        ("mass=1:10,mass=1@5", ChangeError, "names a feature twice"),
        ("mass=1:10,friction=1@50", ChangeError, "an episode has 50 steps, so give one from 1 to 49"),
        ("mass=1:10,friction=1@0", ChangeError, "so give one from 1 to 49"),
        ("mass=1:-3,friction=1@5", TaskError, "mass is -3.0; it must be a number greater than 0 kg"),
        ("mass=1:heavy,friction=1@5", TaskError, "mass is 'heavy'; it must be a number greater than 0 kg"),
        ("mass=1:10@5", TaskError, "--change mass=1:10@5: task mass=1.0 lacks friction; a task needs a value of each."),
        ("mas=1:10,friction=1@5", UnknownName, "Did you mean 'mass'?"),
        ("latency=0:0.08@5", UnknownName, "unknown feature or delay 'latency'. Did you mean 'latency_s'? Valid: act"),
    ],
)
def test_a_bad_change_is_refused_with_what_is_valid(text, error, message):
    with pytest.raises(error) as caught:
        DynamicsChange.parse(text, PANDA_TASKS, 50)
    assert message in str(caught.value)


def test_the_policys_part_of_a_file_acts_as_the_whole_and_a_file_that_lies_is_refused():
    artifact = read_artifact(MODEL)
    golden = artifact.contract.golden_steps()
    head = PolicyHead(artifact)
    action, context = golden.answers["action"], golden.answers["context"]
    np.testing.assert_allclose(head(golden.observation, context), action, atol=1e-5)
    shifted = head(golden.observation, context + 1.0)
    assert np.abs(shifted - action).max() > 1e-3
    action *= -1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(artifact.contract), "golden_steps", lambda _: golden)
        with pytest.raises(CheckFailed, match="differs from the whole file by"):
            PolicyHead(artifact)
    memoryless = artifact.contract.model_copy(update={"context": None})
    with pytest.raises(SamiError, match="infers no context"):
        PolicyHead(type(artifact)(artifact.path, memoryless, artifact.model_bytes, artifact.graph_sha256))


def run_of(xs, ret=0.0, success=False, value=None):
    """An episode whose context is (x, 0) at each step."""
    contexts = np.array([[x, 0.0] for x in xs])
    values = contexts if value is None else np.array([[x, 0.0] for x in value])
    return ChangedEpisode(contexts, values, np.zeros((len(xs), 1)), np.array([ret]), success)


def test_delays_gaps_and_pairs_are_counted_by_hand():
    unit = ((1.0, 0.0), (0.0, 1.0))
    numbers = {"step": 1, "threshold": 3.0, "slow": 0.1, "fast": 2.0, "false_alarm_rate": 0.05}
    atlas = Atlas(tasks=({},), mean=((0.0, 0.0),), covariance=(unit,), episodes=1, held_out=1, **numbers)
    contract = read_artifact(MODEL).contract.model_copy(update={"atlas": atlas, "context": Context(size=2)})
    live = [run_of([0, 0, 0, 1, 4, 8], -6, True), run_of([0, 0, 0], -3, True), run_of([0, 0, 0, 1, 1], -5, False)]
    frozen = [run_of([0] * 6, -6, False, [0] * 6), live[1], run_of([0] * 5, -7, False, [0] * 5)]
    starts = [run_of([5] * 6), run_of([5] * 2), run_of([5] * 3)]
    variants = {v: live for v in (Variant.RESET, Variant.START, Variant.UNCHANGED)}
    verdict = judge(
        DynamicsChange({}, {}, 2), {Variant.LIVE: live, Variant.FROZEN: frozen, **variants}, starts, contract, SUCCESS
    )
    assert (verdict.episodes, verdict.reached) == (3, 3)
    row = verdict.of(Variant.LIVE)
    assert row.success == Mean(2 / 3, pytest.approx(1 / 3))
    assert row.ret.value == pytest.approx(-14 / 3)
    # x = 4 is beyond the threshold two steps after the change, and nearer to 5 than to 0; 1 is neither.
    assert row.detected == Delay(1 / 3, 2.0)
    assert row.adapted == Delay(1 / 3, 2.0)
    assert (row.gap, row.score) == (pytest.approx([5.0]), pytest.approx([0.0]))
    assert verdict.of(Variant.FROZEN).less_than_live == Mean(pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert verdict.of(Variant.FROZEN).detected is None
    later = {variant: [runs[0]] * 5 for variant, runs in {Variant.LIVE: live, Variant.FROZEN: frozen}.items()}
    report = judge(DynamicsChange({}, {}, 4), later, starts[:1] * 5, contract, RETURN)
    assert report.of(Variant.LIVE).gap == pytest.approx([1.0, 3.0])
    assert report.of(Variant.FROZEN).gap == pytest.approx([5.0, 5.0])
    assert report.of(Variant.LIVE).score == pytest.approx([4 / 3, 8 / 3])
    assert (report.of(Variant.LIVE).success, report.of(Variant.FROZEN).less_than_live.value) == (None, 0.0)
    # It was loud already when the dynamics changed.
    assert report.of(Variant.LIVE).detected == Delay(0.0, None)
    assert report.of(Variant.LIVE).identified is None
    with pytest.raises(ChangeError, match="all 3 episodes were over before step 9"):
        judge(DynamicsChange({}, {}, 9), {Variant.LIVE: live}, starts, contract, SUCCESS)


def test_new_dynamics_are_identified_in_episodes_that_end_nearest_to_them():
    light, heavy, unit = {"mass": 1.0}, {"mass": 10.0}, ((1.0, 0.0), (0.0, 1.0))
    numbers = {"step": 1, "threshold": 9.0, "slow": 0.1, "fast": 9.0, "false_alarm_rate": 0.05}
    mean = ((0.0, 0.0), (4.0, 0.0))
    atlas = Atlas(tasks=(light, heavy), mean=mean, covariance=(unit, unit), episodes=1, held_out=1, **numbers)
    contract = read_artifact(MODEL).contract.model_copy(update={"atlas": atlas, "context": Context(size=2)})
    # There from the second step on; back again at the end; there and back and there; over at the change.
    live = [run_of(xs) for xs in ([0, 0, 0, 4, 4], [0, 0, 4, 4, 0], [0, 4, 4, 0, 3], [0, 0])]

    def identified(before, after):
        runs = {Variant.LIVE: live, Variant.FROZEN: live}
        verdict = judge(DynamicsChange(before, after, 1), runs, live, contract, RETURN)
        assert verdict.of(Variant.FROZEN).identified is None
        return verdict.of(Variant.LIVE).identified

    assert identified(light, heavy) == Delay(0.5, 1.5)
    assert identified(heavy, heavy) is None
    assert identified(light, {"mass": 2.0}) is None
