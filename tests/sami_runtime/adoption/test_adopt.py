"""Policies of other frameworks become files that answer as their own framework would let them answer."""

import numpy as np
import pytest

from sami_runtime import CheckFailed, ContractError, Session, verify
from sami_runtime.adoption import adopt as module
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.adoption.recipe import row as for_each
from sami_runtime.session.inference import import_onnxruntime
from tests.making import foreign


def observation_of(values):
    return {"joint_angles": values[0:2], "joint_velocities": values[2:4], "command": values[4:6]}


def observations(steps, seed=3):
    return np.random.default_rng(seed).normal(size=(steps, 6)).astype(np.float32)


def answer(frame, size=8):
    weights = foreign.weights_of(size)
    return np.tanh(frame @ weights["w"] + weights["b"])


def read_by_the_network(values):
    """What legged-gym computes of an observation."""
    return np.concatenate([values[0:2] - np.float32(foreign.DEFAULT), values[2:4] * np.float32(0.05), values[4:6]])


def targets(raw):
    return raw * np.float32([0.25, 0.5]) + np.float32(foreign.DEFAULT)


def test_a_feed_forward_policy_answers_with_its_recipe_inside(adopted):
    artifact = adopted(foreign.feed_forward(), foreign.document())
    contract = artifact.contract
    assert (contract.context, contract.rate_hz, [s.name for s in contract.state]) == (None, 50.0, ["last_action"])
    session, last = Session(artifact), np.zeros(2, np.float32)
    for values in observations(6):
        last = answer(np.concatenate([read_by_the_network(values), last]))
        step = session.step(observation_of(values))
        np.testing.assert_allclose(step.action, targets(last), atol=1e-6)
        assert step.context.shape == (0,)
    session.reset()
    first = session.step(observation_of(observations(1)[0])).action
    frame = np.concatenate([read_by_the_network(observations(1)[0]), np.zeros(2, np.float32)])
    np.testing.assert_allclose(first, targets(answer(frame)), atol=1e-6)


def test_the_applied_action_is_read_in_the_networks_numbers_and_is_0_at_first(adopted):
    artifact = adopted(foreign.feed_forward(), foreign.document(last_action={"slice": [6, 8], "kind": "applied"}))
    session, last = Session(artifact), np.zeros(2, np.float32)
    for values in observations(4):
        raw = answer(np.concatenate([read_by_the_network(values), last]))
        np.testing.assert_allclose(session.step(observation_of(values)).action, targets(raw), atol=1e-6)
        executed = targets(raw) + np.float32([0.1, -0.1])
        session.executed(executed)
        last = (executed - np.float32(foreign.DEFAULT)) / np.float32([0.25, 0.5])


def test_clips_bound_signals_frame_and_output(adopted):
    document = foreign.document(clip=2.0)
    document["signals"][0]["clip"] = [-0.1, 0.3]
    document["action"]["clip"] = 0.2
    session, last = Session(adopted(foreign.feed_forward(), document)), np.zeros(2, np.float32)
    for values in observations(5) * 4:
        angles = np.clip(values[0:2] - np.float32(foreign.DEFAULT), -0.1, 0.3)
        frame = np.concatenate([angles, values[2:4] * np.float32(0.05), values[4:6], last])
        last = np.clip(answer(np.clip(frame, -2, 2)), -0.2, 0.2)
        np.testing.assert_allclose(session.step(observation_of(values)).action, targets(last), atol=1e-6)


@pytest.mark.parametrize("first", ["oldest", "newest"])
@pytest.mark.parametrize("start", ["repeat", "zero"])
def test_histories_of_signals_are_state_in_the_graph(adopted, first, start):
    history = {"steps": 3, "first": first, "start": start}
    document = foreign.document(
        signals=[
            foreign.signal("joint_angles", "rad", foreign.JOINTS, [0, 6], offset=foreign.DEFAULT, history=history),
            foreign.signal("joint_velocities", "rad/s", foreign.JOINTS, [6, 8], scale=0.05),
            foreign.signal("command", "m/s", ["forward", "left"], [8, 10]),
        ],
        last_action={"slice": [10, 16], "kind": "raw", "history": {**history, "start": "zero"}},
    )
    session = Session(adopted(foreign.feed_forward(16), document))
    for _ in range(2):
        session.reset()
        angles, actions = [], [np.zeros(2, np.float32)] * 3
        for values in observations(6):
            now = values[0:2] - np.float32(foreign.DEFAULT)
            angles = angles or [now if start == "repeat" else np.zeros_like(now)] * 2
            angles = [*angles, now][-3:]
            order = slice(None) if first == "oldest" else slice(None, None, -1)
            terms = [values[2:4] * np.float32(0.05), values[4:6]]
            raw = answer(np.concatenate([*angles[order], *terms, *actions[order]]), 16)
            actions = [*actions, raw][-3:]
            np.testing.assert_allclose(session.step(observation_of(values)).action, targets(raw), atol=1e-6)


@pytest.mark.parametrize("shape", [[1, 40], ["batch", 40]])
def test_a_history_of_whole_frames_is_state_in_the_graph(adopted, shape):
    document = foreign.document(history={"steps": 5, "first": "oldest", "start": "repeat"})
    session = Session(adopted(foreign.feed_forward(40, shape=shape), document))
    frames, last = [], np.zeros(2, np.float32)
    for values in observations(8):
        frame = np.concatenate([read_by_the_network(values), last])
        frames = [*(frames or [frame] * 4), frame][-5:]
        last = answer(np.concatenate(frames), 40)
        np.testing.assert_allclose(session.step(observation_of(values)).action, targets(last), atol=1e-6)


def test_a_convolution_over_past_frames_is_adopted(adopted):
    document = foreign.document(history={"steps": 6, "first": "oldest", "start": "zero"})
    session = Session(adopted(foreign.convolutional(), document))
    kernel = np.random.default_rng(2).normal(0, 0.5, (3, 8, 3)).astype(np.float32)
    weights = foreign.weights_of(12)
    frames, last = [np.zeros(8, np.float32)] * 5, np.zeros(2, np.float32)
    for values in observations(9):
        frames = [*frames, np.concatenate([read_by_the_network(values), last])][-6:]
        rows = np.stack(frames, axis=1)
        filtered = np.stack([np.einsum("csk,sk->c", kernel, rows[:, at : at + 3]) for at in range(4)], axis=1)
        filtered += np.arange(3)[:, None]
        last = filtered.ravel() @ weights["w"] + weights["b"]
        np.testing.assert_allclose(session.step(observation_of(values)).action, targets(last), atol=1e-5)


def test_a_convolution_over_steps_and_numbers_is_adopted(adopted):
    policy = foreign.image_convolution()
    history = {"steps": 5, "first": "newest", "start": "zero"}
    session = Session(adopted(policy, foreign.document(history=history)))
    exported = import_onnxruntime().InferenceSession(policy.SerializeToString(), providers=["CPUExecutionProvider"])
    frames, last = [np.zeros(8, np.float32)] * 4, np.zeros(2, np.float32)
    for values in observations(8):
        frames = [np.concatenate([read_by_the_network(values), last]), *frames][:5]
        [[last]] = exported.run(["actions"], {"obs": np.stack(frames)[None]})
        np.testing.assert_allclose(session.step(observation_of(values)).action, targets(last), atol=1e-6)


def test_a_history_that_is_an_axis_has_as_many_steps_as_the_recipe(adopted):
    with pytest.raises(ContractError, match="input 'obs' has 5 frames, the recipe's history 1"):
        adopted(foreign.image_convolution(), foreign.document())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_policies_of_both_layouts_are_adopted(adopted, kind, batch_first):
    states = foreign.STATES if kind == "LSTM" else foreign.STATES[:1]
    artifact = adopted(foreign.recurrent(kind, batch_first), foreign.document(state=states))
    assert artifact.contract.state[0].shape == ((5,) if batch_first else (2, 5))
    assert verify(artifact).passed
    session = Session(artifact)
    first, second = (session.step(observation_of(observations(1)[0])).action for _ in range(2))
    assert np.abs(first - second).max() > 1e-3, "the state moves"


@pytest.mark.parametrize("every", [False, True])
def test_a_signal_may_have_an_input_of_its_own(adopted, every):
    nodes = [
        foreign.helper.make_node("Gemm", ["obs", "w", "b"], ["z"]),
        foreign.helper.make_node("Mul", ["z", "gain"], ["actions"]),
    ]
    inputs = [foreign.info("obs", [1, 6]), foreign.info("gain", [1, 1])]
    policy = foreign.model(nodes, inputs, [foreign.info("actions", [1, 2])], foreign.weights_of(6))
    document = foreign.document(last_action=None)
    document["signals"].append(foreign.signal("gain", "1", ["gain"], [0, 1], input="gain"))
    del document["last_action"]
    if every:
        common = document.pop("input")
        document["signals"] = [{"input": common, **signal} for signal in document["signals"]]
    session, values = Session(adopted(policy, document)), observations(1)[0]
    weights = foreign.weights_of(6)
    raw = (read_by_the_network(values) @ weights["w"] + weights["b"]) * 3
    step = session.step({**observation_of(values), "gain": [3.0]})
    np.testing.assert_allclose(step.action, targets(raw), atol=1e-5)


@pytest.mark.parametrize(
    ("output", "names"), [("actions.above", ("action", "input0")), ("obs.constant", ("applied", "begun"))]
)
def test_names_of_tensors_and_signals_meet_none_that_the_recipe_makes(adopted, output, names):
    policy = foreign.feed_forward()
    policy.graph.node[0].output[0] = policy.graph.node[1].input[0] = output
    document = foreign.document(clip=5.0)
    document["action"]["clip"], document["last_action"]["kind"] = 0.5, "applied"
    for signal, name in zip(document["signals"][1:], names, strict=True):
        signal["name"] = name
    assert [signal.name for signal in adopted(policy, document).contract.observation] == ["joint_angles", *names]


@pytest.mark.parametrize("field", ["offset", "scale"])
def test_a_file_that_answers_otherwise_than_the_original_is_not_written(adopted, monkeypatch, field):
    """Here the graph is made by a recipe that differs a little from that of the reference."""
    write = module.wrapped_model

    def differing(data, recipe, *arguments):
        angles, *signals = recipe.signals
        signal = angles.model_copy(update={field: for_each(getattr(angles, field), 2) * np.float32(1 + 1e-4)})
        return write(data, recipe.model_copy(update={"signals": (signal, *signals)}), *arguments)

    monkeypatch.setattr(module, "wrapped_model", differing)
    monkeypatch.setattr(module, "PARITY_STEPS", 500)  # as outside of tests
    with pytest.raises(CheckFailed, match=r"the adopted file is off by .* at step [0-9]+; .* is allowed"):
        adopted(foreign.feed_forward(), foreign.document())


def test_an_adopted_file_stores_its_recipe_and_the_sources_of_its_fields(adopted):
    artifact = adopted(foreign.feed_forward(), foreign.document())
    recipe = Recipe.of(artifact)
    assert recipe == Recipe.parse(foreign.document(), "test")
    assert recipe.action.kp == 20.0
    source = artifact.contract.training["adopted"]["sources"]["signals.joint_angles.offset"]
    assert (source["kind"], source["where"].endswith("my.json")) == ("file", True)


def test_a_batch_of_episodes_answers_as_each_alone(adopted):
    artifact = adopted(foreign.recurrent(), foreign.document(state=foreign.STATES))
    values = observations(3)
    batch = Session(artifact, batch=3)
    sessions = [Session(artifact) for _ in values]
    for _ in range(3):
        actions = batch.step({name: value.T for name, value in observation_of(values.T).items()}).action
        for row, session in enumerate(sessions):
            np.testing.assert_allclose(actions[row], session.step(observation_of(values[row])).action, atol=1e-6)
