"""Whether the tools that robotics people have show a recording: each signal as numbers, with its name."""

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("mcap")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mcap.reader import make_reader

from sami_runtime import Executed, Observation, Recorder, Session, read_recording, run_episode
from sami_runtime.distribution import shipped_models


class Anywhere:
    """A robot that a model was made for, in another random pose at each reading."""

    def __init__(self, contract):
        self.observation, self.action = contract.observation, contract.action
        self._random = np.random.default_rng(0)

    def reset(self, seed=None):
        pass

    def read(self):
        values = {item.name: self._random.uniform(-0.5, 0.5, item.size) for item in self.observation}
        if "torso_orientation" in values:
            values["torso_orientation"] /= np.linalg.norm(values["torso_orientation"])
        return Observation(values, 0.0)

    def write(self, action):
        return Executed(np.clip(action, -0.5, 0.5))

    def stop(self):
        pass

    close = stop


@pytest.fixture(scope="module", params=["panda-satesac", "crippled-ant-satesac"])
def recorded(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "run.mcap"
    session = Session.load(shipped_models()[request.param])
    with Recorder(path, session) as recorder:
        run_episode(session, Anywhere(session.contract), max_steps=30, on_step=recorder)
    return read_recording(path)


def topics(contract):
    """By topic, the elements of each signal of a recording, and what the ticks have for them."""
    elements = {f"/observation/{item.name}": item.elements for item in contract.observation}
    elements |= dict.fromkeys(("/action/proposed", "/action/executed"), contract.action.elements)
    return elements | {"/context": tuple(f"n{number}" for number in range(contract.context_size))}


def values(recording, topic):
    kind, _, name = topic[1:].partition("/")
    records = [step.record for step in recording.steps]
    if kind == "observation":
        return np.array([record.observation.values[name] for record in records])
    return np.array([{"proposed": r.action, "executed": r.executed, "": r.context}[name] for r in records], float)


def decoded(path, topic):
    """Every message of a topic, read by the description in the file alone."""
    with path.open("rb") as file:
        for schema, _, message in make_reader(file).iter_messages(topics=[topic]):
            yield class_of(schema).FromString(message.data)


def class_of(schema):
    pool = descriptor_pool.DescriptorPool()
    for item in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
        pool.Add(item)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))


def numbers(message, path=""):
    """Every number of a message that is there, by its path."""
    table = {}
    for field, value in message.ListFields():
        for at, item in enumerate(value if isinstance(value, Sequence) and not isinstance(value, str) else [value]):
            name = f"{path}/{field.name}{at}"
            if hasattr(item, "ListFields"):
                table |= numbers(item, name)
            else:
                table[name] = item if not isinstance(item, str) else sum(item.encode())
    return table


def test_mcap_reads_every_signal_by_its_index_as_numbers_with_names(recorded):
    for topic, elements in topics(recorded.contract).items():
        rows = [[getattr(tick, name) for name in elements] for tick in decoded(recorded.path, topic)]
        np.testing.assert_array_equal(rows, values(recorded, topic), err_msg=topic)
    ticks = list(decoded(recorded.path, "/tick"))
    assert [tick.step for tick in ticks] == list(range(30))
    first = recorded.contract.observation[0]
    nested = getattr(ticks[7].observation, first.name)
    assert [getattr(nested, element) for element in first.elements] == list(
        values(recorded, f"/observation/{first.name}")[7]
    )
    assert ticks[7].infer > 0.0


def test_rerun_shows_every_signal_as_numbers_with_names(recorded):
    rerun = pytest.importorskip("rerun.chunk", reason="rerun-sdk is not installed: pip install 'sami-rl[tools]'")
    columns = {}
    for chunk in rerun.McapReader(str(recorded.path)).stream().collect().stream().to_chunks():
        batch = chunk.to_record_batch()
        columns.setdefault(chunk.entity_path, {}).update(
            {
                name: columns.get(chunk.entity_path, {}).get(name, []) + batch.column(name).to_pylist()
                for name in batch.schema.names
                if name.endswith(":message") or name.startswith(("InstancePoses3D", "TextLog"))
            }
        )
    for topic, elements in topics(recorded.contract).items():
        ((name, rows),) = columns[topic].items()
        assert name.startswith("sami.")
        np.testing.assert_array_equal([[row[0][e] for e in elements] for row in rows], values(recorded, topic))
    assert len(columns["/tick"]["sami.Tick:message"]) == 30
    assert columns["/log"]["TextLog:text"][0] == ["episode 0 begins"]
    poses = [path for path in columns if path.startswith("/pose/")]
    assert bool(poses) == (recorded.contract.name == "panda-satesac")
    for path in poses:
        assert len(columns[path]["InstancePoses3D:translations"]) == 30


def test_foxglove_writes_the_well_known_messages_alike(recorded):
    messages = pytest.importorskip(
        "foxglove.messages", reason="foxglove-sdk is not installed: pip install 'sami-rl[tools]'"
    )
    with recorded.path.open("rb") as file:
        triples = list(make_reader(file).iter_messages())
    well_known = {schema.name: schema for schema, _, _ in triples if schema.name.startswith("foxglove.")}
    expected = "PoseInFrame" if recorded.contract.name == "panda-satesac" else "JointStates"
    assert well_known.keys() == {"foxglove.Log", f"foxglove.{expected}"}
    for name, schema in well_known.items():
        foxglove = getattr(messages, name.removeprefix("foxglove.")).get_schema()
        result, reference = (fields_of(item) for item in (schema.data, foxglove.data))
        assert result == reference
    topic, make = ("/pose/cube", pose) if expected == "PoseInFrame" else ("/joints", joints)
    records = [step.record for step in recorded.steps]
    results = [(schema, message) for schema, channel, message in triples if channel.topic == topic]
    assert len(results) == 30
    for (schema, message), record in zip(results, records, strict=True):
        stamp = messages.Timestamp(message.log_time // 10**9, message.log_time % 10**9)
        foxglove = make(messages, stamp, record.observation.values, recorded.contract).encode()
        result, reference = (numbers(class_of(schema).FromString(data)) for data in (message.data, foxglove))
        assert result.keys() == reference.keys()
        assert result == pytest.approx(reference, abs=1e-12)


def pose(messages, stamp, values, contract):
    from sami_runtime.robots.kit import matrix_from_rpy, xyzw_from_matrix

    del contract
    x, y, z, w = xyzw_from_matrix(matrix_from_rpy(values["cube_rotation"]))
    place = messages.Vector3(**dict(zip("xyz", values["cube_position"], strict=True)))
    return messages.PoseInFrame(
        timestamp=stamp,
        frame_id="world",
        pose=messages.Pose(position=place, orientation=messages.Quaternion(x=x, y=y, z=z, w=w)),
    )


def joints(messages, stamp, values, contract):
    elements = next(item.elements for item in contract.observation if item.name == "joint_angles")
    rows = zip(elements, values["joint_angles"], values["joint_velocities"], strict=True)
    return messages.JointStates(
        timestamp=stamp, joints=[messages.JointState(name=n, position=p, velocity=v) for n, p, v in rows]
    )


def fields_of(data):
    """What a description says, whatever its files are called."""
    return {
        f"{file.package}.{message.name}": (
            [(f.name, f.number, f.type, f.type_name, f.label, f.proto3_optional) for f in message.field],
            [(e.name, [(v.name, v.number) for v in e.value]) for e in message.enum_type],
        )
        for file in descriptor_pb2.FileDescriptorSet.FromString(data).file
        for message in file.message_type
    }
