"""The probe: what it learns from, what it promises, what the file answers, and what stays as it was."""

import numpy as np
import onnx
import pytest

from sami_runtime import Session, read_artifact, verify
from sami_runtime.errors import ContractError, SamiError
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import CONTEXT, Contract
from sami_runtime.model.probe import LEAST_R2, PROBE
from sami_train.envs.catalog import environment
from sami_train.envs.task_numbers import FeatureScale
from sami_train.envs.tasks import Crippled
from sami_train.export.export import compose_model
from sami_train.export.model_file import write
from sami_train.studies.contexts.changed_episodes import PolicyHead
from sami_train.studies.readout.attach import measure_probe
from sami_train.studies.readout.fit import RATE, answers, fit, unseen_tasks, varying
from tests.making.attached import attach_lookahead, attach_probe
from tests.making.graph_weights import graph_weights
from tests.sami_train.export.test_export import make_agent
from tests.sami_train.studies.lookahead.test_attach import make_fit

PANDA, CHEETAH = environment("panda"), environment("crippled-half-cheetah")
NOISE = 0.3


def samples(spec, count, seed=0, noise=NOISE, hidden=()):
    """Episodes whose contexts tell where every feature lies, with noise that stands for a whole episode."""
    rng = np.random.default_rng(seed)
    tasks, features = unseen_tasks(spec.tasks, count, seed), varying(spec.tasks)
    episodes = []
    for task in tasks:
        truth = []
        for feature in features:
            if isinstance(feature, Crippled):
                truth += [float(part in task["crippled"]) for part in range(len(feature.parts))]
            else:
                place = float(feature.place(task[feature.feature.name]))
                truth.append(0.0 if feature.feature.name in hidden else place)
        length = int(rng.integers(4, 30))
        wrong = rng.normal(0, noise, len(truth)) + rng.normal(0, noise / 3, (length, len(truth)))
        contexts = np.array(truth) + wrong
        episodes.append(np.pad(contexts, ((0, 0), (0, 6)))[:, :6].astype(np.float32))
    return episodes, tasks, features


@pytest.fixture(scope="module")
def probe_fit():
    return fit(*samples(PANDA, 200), step=3)


@pytest.fixture(scope="module")
def of_mass():
    """Fitted to contexts that carry the mass alone."""
    return fit(*samples(PANDA, 200, hidden={"friction"}), step=3)


@pytest.fixture(scope="module")
def of_nothing():
    """Fitted to contexts that carry neither."""
    return fit(*samples(PANDA, 120, hidden={"mass", "friction"}), step=3)


@pytest.fixture(scope="module")
def with_probe(plain, probe_fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("probed") / "tiny.onnx"
    attach_probe(plain, path, probe_fit)
    return path


def observations(steps, seed=0):
    return [PANDA.layout.by_name(row) for row in np.random.default_rng(seed).normal(0.1, 0.3, (steps, 25))]


def test_coordinates_that_do_not_move_are_not_magnified(probe_fit):
    """Four of the six stand still: what float32 rounds there is no mass, and differs by the version of onnxruntime."""
    assert np.abs(probe_fit.readout.weights[0]).max() < 1e3


@pytest.mark.parametrize("spec", [PANDA, CHEETAH])
def test_tasks_are_new_lie_in_the_range_and_are_drawn_by_the_seed(spec):
    tasks = unseen_tasks(spec.tasks, 60, 1)
    listed = [dict(task) for tasks in spec.tasks.sets.values() for task in tasks]
    assert not any(dict(task) in listed for task in tasks)
    assert tasks == unseen_tasks(spec.tasks, 60, 1) != unseen_tasks(spec.tasks, 60, 2)
    for feature in varying(spec.tasks):
        if isinstance(feature, FeatureScale):
            values = [task[feature.feature.name] for task in tasks]
            assert feature.low <= min(values) < max(values) <= feature.high


def test_what_contexts_carry_is_found_and_what_they_do_not_is_said(of_mass):
    probe = of_mass.probe
    mass, friction = probe.features
    assert mass.r2 > 0.7
    assert mass.carried
    assert not friction.carried
    assert [signal.name for signal in probe.signals] == ["probe_mass"]
    assert probe.silent == ("friction",)
    assert "friction, 0.1 to 10: the context does not identify it (R2 " in "\n".join(probe.lines())
    assert "within a factor of" in str(mass)


@pytest.mark.parametrize("spec", [PANDA, CHEETAH])
def test_intervals_hold_the_truth_of_fresh_tasks_as_often_as_they_say(spec):
    shares = []
    for seed in range(2):
        readout, probe = fit(*samples(spec, 300, seed), step=3, seed=seed)
        episodes, tasks, features = samples(spec, 200, 1000 + seed)
        feature, scale = probe.features[0], features[0]
        shares_covered = []
        for contexts, task in zip(episodes, tasks, strict=True):
            if len(contexts) > 3:
                errors = np.abs(readout.places(contexts[3:])[:, 0] - float(scale.place(task[feature.name])))
                shares_covered.append(np.mean(errors <= feature.margin))
        shares.append(np.mean(shares_covered))
    # Two margins from 74 episodes each: a standard error of about 0.03.
    assert np.mean(shares) == pytest.approx(RATE, abs=0.05)


def test_crippled_parts_are_told_one_by_one():
    probe = fit(*samples(CHEETAH, 300), step=3).probe
    crippled = probe.features[-1]
    assert crippled.name == "crippled"
    assert crippled.r2 > 0.3
    assert crippled.signal.elements == next(f.parts for f in CHEETAH.tasks.features if isinstance(f, Crippled))


def test_the_file_answers_what_the_readout_says_and_acts_as_before(plain, with_probe, probe_fit):
    session, reference, features = Session.load(with_probe), Session.load(plain), probe_fit.probe.features
    for observation in observations(40):
        step, other = session.step(observation), reference.step(observation)
        assert step.action.tobytes() == other.action.tobytes()
        assert step.context.tobytes() == other.context.tobytes()
        expected = answers(probe_fit.readout, features, step.context[None])
        for name, value in step.extra.items():
            assert value == pytest.approx(expected[name][0], rel=1e-5)
            assert value[1] <= value[0] <= value[2]
    assert set(step.extra) == {"probe_mass", "probe_friction"}


def test_answers_stay_within_the_range_wherever_a_context_lies(probe_fit):
    for name, values in answers(probe_fit.readout, probe_fit.probe.features, np.full((3, 6), 1e6)).items():
        feature = next(f for f in probe_fit.probe.features if PROBE + f.name == name)
        assert values.min() >= np.float32(feature.low) * (1 - 1e-6)
        assert values.max() <= np.float32(feature.high) * (1 + 1e-6)


def test_golden_steps_cover_it(with_probe, tmp_path):
    assert verify(with_probe).passed
    model = onnx.load(with_probe)
    (weight,) = [item for item in model.graph.initializer if item.name == "probe/bias_1"]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + 0.05, weight.name))
    contract = read_artifact(with_probe).contract
    new_contract = contract.model_copy(update={"weights_sha256": graph_sha256(model.SerializeToString())})
    onnx.helper.set_model_props(model, new_contract.metadata())
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    assert [check.name for check in verify(path).checks if not check.passed] == ["golden replay", "closed loop"]


def test_a_file_without_a_feature_that_is_carried_keeps_its_graph_and_says_so(plain, of_nothing, tmp_path):
    contract = attach_probe(plain, tmp_path / "silent.onnx", of_nothing)
    assert contract.weights_sha256 == read_artifact(plain).contract.weights_sha256
    assert contract.extra_outputs == ()
    assert contract.probe.silent == ("mass", "friction")
    assert all(feature.r2 < LEAST_R2 for feature in contract.probe.features)


def test_a_probe_takes_the_place_of_another_and_can_go_again(plain, with_probe, of_mass, of_nothing, tmp_path):
    path = tmp_path / "again.onnx"
    assert [s.name for s in attach_probe(with_probe, path, of_mass).extra_outputs] == ["probe_mass"]
    attach_probe(path, path, of_nothing)
    artifact, reference = read_artifact(path), read_artifact(plain)
    assert [n.name for n in onnx.load(path).graph.node] == [n.name for n in onnx.load(plain).graph.node]
    assert artifact.contract.outputs == reference.contract.outputs


def test_files_without_one_are_written_as_before(plain):
    contract = read_artifact(plain).contract
    assert contract.probe is None
    assert '"probe"' not in contract.dumps()
    assert Contract.parse(contract.dumps(), "it") == contract


def test_a_contract_whose_outputs_are_not_its_probes_is_refused(with_probe):
    contract = read_artifact(with_probe).contract
    text = contract.model_copy(update={"extra_outputs": contract.extra_outputs[:1]}).dumps()
    with pytest.raises(ContractError, match="the probe describes the outputs"):
        Contract.parse(text, "it")


def test_it_goes_with_a_forward_model_in_either_order(with_probe, plain, probe_fit, tmp_path):
    ahead, reverse = tmp_path / "ahead.onnx", tmp_path / "behind.onnx"
    attach_lookahead(with_probe, ahead, 3, make_fit(), "nothing")
    attach_lookahead(plain, reverse, 3, make_fit(), "nothing")
    attach_probe(reverse, reverse, probe_fit)
    session, other = Session.load(ahead), Session.load(reverse)
    for k, observation in enumerate(observations(20)):
        step, expected = session.step(observation, age=float(k % 3)), other.step(observation, age=float(k % 3))
        for name, value in step.answers.items():
            assert value.tobytes() == expected.answers[name].tobytes()


def test_what_else_reads_the_graph_reads_it_as_before(plain, with_probe):
    head = PolicyHead(read_artifact(with_probe))
    golden = read_artifact(with_probe).contract.golden_steps()
    assert np.abs(head(golden.observation, golden.answers[CONTEXT]) - golden.answers["action"]).max() < 1e-5
    weights, reference = graph_weights(with_probe), graph_weights(plain)
    assert weights.keys() == reference.keys()
    assert all(np.array_equal(weights[name], reference[name]) for name in weights)


def test_too_little_to_learn_from_is_refused():
    with pytest.raises(SamiError, match="episodes last beyond step 3, from which contexts count"):
        fit(*samples(PANDA, 30), step=3)


def test_a_policy_that_infers_nothing_is_refused(tmp_path):
    path = tmp_path / "sac.onnx"
    write(compose_model(make_agent("sac"), path, {"method": "SAC"}, None))
    with pytest.raises(SamiError, match="infers no context, so there is nothing to read the physics from"):
        measure_probe(path, PANDA, 50)
