"""Points, shapes and boxes by MuJoCo, and random commands that bring no simulated robot beyond its limits."""

import numpy as np
import pytest

from benchmarks.body_cost import PANDA
from sami_runtime import FakeAdapter, Limits, Observation
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.robots.body import BodyGate, BodyLimits, BodySettings
from sami_runtime.robots.body.geometry import Geometry, by_hand
from sami_runtime.signals import Signal

mujoco = pytest.importorskip("mujoco")

ARM = """<mujoco><compiler angle="radian" autolimits="true"/><worldbody><body name="base">
<geom type="sphere" size="0.05"/>
<body name="upper" pos="0 0 0.1"><joint name="a" axis="0 1 0" range="-3 3"/><geom type="capsule" size="0.03"
fromto="0 0 0.05 0 0 0.4"/><body name="lower" pos="0 0 0.5"><joint name="b" axis="0 1 0" range="-3 3"/>
<geom type="capsule" size="0.03" fromto="0 0 0.05 0 0 0.4"/><site name="tip" pos="0 0 0.5"/></body></body></body>
</worldbody></mujoco>"""
URDF = """<robot name="r"><link name="base"/><link name="arm"><collision><origin xyz="0 0 0.2"/><geometry>
<box size="0.05 0.05 0.3"/></geometry></collision></link><joint name="a" type="revolute"><parent link="base"/>
<child link="arm"/><axis xyz="0 1 0"/><limit lower="-2" upper="1" velocity="1.5" effort="40"/></joint></robot>"""
SLIDES = """<mujoco><worldbody><body name="base"><body name="left" pos="0 0.5 0"><joint name="a" type="slide"
axis="1 0 0"/><geom size="0.05"/></body><body name="right" pos="0 -0.5 0"><joint name="b" type="slide" axis="1 0 0"/>
<geom size="0.05"/></body></body></worldbody></mujoco>"""
PERIOD = 0.05
HAND = {"command": "hand", "hand": "tip", "acceleration": 1e4}


@pytest.fixture
def table(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    common = {"model": str(tmp_path / "arm.xml"), "joints": ["a", "b"], "positions": "q", "velocities": "v"}
    return {**common, "command": "joint_velocities"}


def test_limits_of_a_urdf_are_its_own_where_the_table_has_none(tmp_path):
    (tmp_path / "r.urdf").write_text(URDF)
    table = {"model": str(tmp_path / "r.urdf"), "joints": ["a"], "positions": "q", "command": "joint_positions"}
    body = BodyLimits(BodySettings.of(table))
    assert [float(limit[0]) for limit in (body.low, body.high, body.velocity, body.torque)] == [-2.0, 1.0, 1.5, 40.0]
    assert float(BodyLimits(BodySettings.of({**table, "velocity": {"most": 0.5}})).velocity[0]) == 0.5
    (tmp_path / "r.urdf").write_text(URDF.replace('effort="40"', 'effort="0"'))  # as exporters write if they know none
    with pytest.raises(SamiError, match="nothing says how much torque a has"):
        BodyLimits(BodySettings.of({**table, "velocities": "v", "kp": 20.0, "kd": 1.0}))


@pytest.mark.parametrize("gear", [0.5, 1.0, -50.0])
def test_the_torque_of_a_joint_is_that_of_its_motor_behind_the_gear(tmp_path, gear):
    motor = f'<actuator><position joint="a" kp="10" gear="{gear}" forcerange="-2 2"/></actuator></mujoco>'
    (tmp_path / "geared.xml").write_text(ARM.replace("</mujoco>", motor))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "geared.xml"))
    data = mujoco.MjData(model)
    data.ctrl[:] = 1e6
    mujoco.mj_forward(model, data)
    torque = Geometry(tmp_path / "geared.xml", ["a"], None).limits().torque
    assert torque == pytest.approx(abs(data.qfrc_actuator[model.joint("a").dofadr]))


def test_a_point_is_slowed_down_to_its_speed_along_the_same_way(table):
    body = BodyLimits(BodySettings.of({**table, "points": {"tip": {"most": 0.5}}}))
    ruling = body.limit([1.0, 0.5], [0.3, 0.2], [0.0, 0.0], PERIOD)
    assert ruling.limited_by == ("body speed tip",)
    assert ruling.command[0] / ruling.command[1] == pytest.approx(2.0)
    [speed] = body.geometry.speeds(np.array([0.3, 0.2]), *[ruling.command] * 2, [body.geometry.require_place("tip")])
    assert speed == pytest.approx(0.5)


def test_a_point_of_a_late_hand_is_slowed_down_where_it_may_be(table):
    body = BodyLimits(BodySettings.of({**table, **HAND, "points": {"lower": {"most": 0.3}}}))
    lower, tip = body.geometry.require_place("lower"), body.geometry.require_place("tip")
    rng, slowed = np.random.default_rng(0), 0
    for _ in range(200):
        place, off, command = rng.uniform(-1.5, 1.5, 2), rng.uniform(0.02, 0.1, 2), rng.uniform(-1.0, 1.0, 3)
        body.begin()
        ruling = body.limit(command, [place - off, place + off], np.zeros((2, 2)), PERIOD)
        slowed += "body speed lower" in ruling.limited_by
        for at in (place - off, place, place + off):
            joint_speeds = by_hand(body.geometry.jacobian(at, tip)) @ ruling.command
            assert body.geometry.speeds(at, joint_speeds, joint_speeds, [lower])[0] <= 0.3 * (1 + 1e-6)
    assert 20 < slowed < 200


def test_a_hand_that_asks_for_too_fast_joints_goes_the_same_way_slowly(table):
    limits = HAND | {"velocity": {"most": 1.0}}
    body = BodyLimits(BodySettings.of({**table, **limits}))
    ruling = body.limit([2.0, 0.0, 0.0], [0.5, 1.0], [0.0, 0.0], PERIOD)
    assert {name.rpartition(" ")[0] for name in ruling.limited_by} == {"body velocity"}
    assert 0.0 < ruling.command[0] < 2.0
    assert ruling.command[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("late", [0, 3])
def test_late_joints_do_not_lead_a_hand_beyond_a_joint_s_end(make, table, late):
    """The hand's commands since the measurement count: three periods of latency led 0.19 rad beyond."""
    joints, speeds = (
        Signal(name=name, size=2, unit=unit, elements=("a", "b"), low=(None,) * 2, high=(None,) * 2)
        for name, unit in (("q", "rad"), ("v", "rad/s"))
    )
    xyz, most = ("x", "y", "z"), (3.0,) * 3
    action = Signal(name="hand", size=3, unit="m/s", elements=xyz, low=tuple(-m for m in most), high=most)
    contract = make.contract_of(make.memoryless(), observation=(joints, speeds), action=action)
    settings = BodySettings.of({**table, **HAND, "position": {"low": -1.0, "high": 1.0}})
    adapter = FakeAdapter(axes=3, limit=100.0)
    adapter.observation, period = contract.observation, 1.0 / contract.rate_hz
    adapter.reset()
    gate = BodyGate(adapter, contract, settings=settings)
    gate.begin(period)
    body, tip = gate.body.geometry, gate.body.geometry.require_place("tip")
    way = [(np.array([0.3, 0.4]), np.zeros(2))]
    for tick in range(40):
        measured = max(0, tick - late)
        values = {name: np.float32(number) for name, number in zip("qv", way[measured], strict=True)}
        assert gate.fault(Observation(values, measured * period), tick * period) is None
        target = [2.0, 0.0, -1.0] if tick < 20 else [-2.0, 0.0, 1.0]
        command = gate.write(gate.propose(np.float32(target), tick * period)).action.astype(float)
        places = way[-1][0]
        for _ in range(10):
            moving = by_hand(body.jacobian(places, tip)) @ command
            places = places + period / 10 * moving
        way.append((places, moving))
    assert max(abs(places).max() for places, _ in way) <= 1.0 + 1e-3


@pytest.mark.parametrize(("robot", "late", "seed"), [("arm", 0, 1), ("arm", 0, 2), ("panda", 0, 2), ("panda", 5, 0)])
def test_random_commands_of_a_hand_lead_no_slowly_braking_joint_beyond_its_end(make, table, robot, late, seed):
    """The joint speeds that a hand needs change on the way, and late joints are elsewhere: 0.41 rad beyond an end."""
    arm = table | {"hand": "tip", "position": {"low": -1.0, "high": 1.0}, "home": [0.3, 0.4]}
    keys = (arm if robot == "arm" else PANDA | {"hand": "panda_hand"}) | {"command": "hand", "acceleration": 5.0}
    settings = BodySettings.of(keys | {"velocity": {"most": 2.0}})
    count, home = len(settings.joints), np.array(settings.home)
    joints, speeds = (
        Signal(name=name, size=count, unit=unit, elements=settings.joints, low=(None,) * count, high=(None,) * count)
        for name, unit in ((settings.positions, "rad"), (settings.velocities, "rad/s"))
    )
    action = Signal(name="hand", size=3, unit="m/s", elements=("x", "y", "z"), low=(-3.0,) * 3, high=(3.0,) * 3)
    contract = make.contract_of(make.memoryless(), observation=(joints, speeds), action=action)
    adapter, period, rng = FakeAdapter(axes=3, limit=100.0), 1.0 / contract.rate_hz, np.random.default_rng(seed)
    adapter.observation = contract.observation
    adapter.reset()
    gate = BodyGate(adapter, contract, Limits(max_age_s=1.0), settings=settings)
    gate.begin(period)
    geometry, hand = gate.body.geometry, gate.body.geometry.require_place(settings.hand)
    places, moving, beyond, target = home, np.zeros(count), [], np.zeros(3)
    states = [(places, moving)]
    for tick in range(300):
        measured = max(0, tick - late)
        values = {joints.name: np.float32(states[measured][0]), speeds.name: np.float32(states[measured][1])}
        assert gate.fault(Observation(values, measured * period), tick * period) is None
        target = rng.uniform(-2.0, 2.0, 3) if rng.random() < 0.1 else target
        command = gate.write(gate.propose(np.float32(target), tick * period)).action.astype(float)
        for _ in range(4):
            change = by_hand(geometry.jacobian(places, hand)) @ command - moving
            before, moving = moving, moving + change.clip(-5.0 * period / 4, 5.0 * period / 4)
            places = places + period / 4 * (before + moving) / 2
            beyond.append(np.maximum(gate.body.low - places, places - gate.body.high).max())
        states.append((places, moving))
    assert -0.1 < max(beyond) <= 1e-3


def test_it_stands_before_a_box_and_before_itself_and_may_part(table):
    boxes = {"wall": {"low": [0.3, -1.0, 0.0], "high": [0.5, 1.0, 2.0]}}
    body = BodyLimits(BodySettings.of({**table, "acceleration": 20.0, "boxes": boxes, "collision": {"margin": 0.02}}))
    positions, velocities, pairs = np.zeros(2), np.zeros(2), set()
    for _ in range(200):
        ruling = body.limit([1.5, 0.5], positions, velocities, PERIOD)
        velocities = ruling.command
        positions = positions + PERIOD * velocities
        pairs.update(ruling.limited_by)
        assert body.geometry.clearance(positions).distance > 0.0
    assert pairs == {"body collision box wall lower"}
    assert body.limit([-0.5, 0.0], positions, velocities, PERIOD).command.tolist() == [-0.5, 0.0]


@pytest.mark.parametrize(("most", "period"), [(None, 0.02), (2.0, 0.1)], ids=["unlimited", "at_10_Hz"])
def test_targets_on_the_other_side_of_a_plate_do_not_lead_through_it(table, most, period):
    """Only the pose at the end of the period was compared: 58 of 60 random episodes hit a plate of 1 cm."""
    limits = {"boxes": {"plate": {"low": [0.4, -1.0, -0.2], "high": [0.41, 1.0, 1.6]}}, "collision": {"margin": 0.02}}
    body = BodyLimits(
        BodySettings.of({**table, **limits, "command": "joint_positions", "velocity": {"most": most} if most else {}})
    )
    rng = np.random.default_rng(0)
    for _ in range(8):
        body.begin()
        place = np.zeros(2)
        for _ in range(15):
            target = body.limit(rng.uniform(-2.5, 2.5, 2), place, None, period).command
            way = [place + share * (target - place) for share in np.linspace(0.0, 1.0, 30)]
            assert min(body.geometry.clearance(pose).distance for pose in way) > 0.0
            place = target


GAINS = {"as_it_brakes": (1.0, 1.0), "at_once": (1.0, 1e9), "and_brakes_at_once": (1e9, 1e9)}
"""By what a joint does: shares of the acceleration in the table by which it brakes, and by which it speeds up."""


def driven_arm(table, seed, limits, gain, period, steps):
    """Return names of limits and, several times a period, positions and velocities of joints under random commands."""
    body, rng = BodyLimits(BodySettings.of({**table, "acceleration": 5.0, **limits})), np.random.default_rng(seed)
    place, speed, command, names, path, parts = np.zeros(2), np.zeros(2), np.zeros(2), set(), [], 10
    for step in range(steps):
        command = rng.uniform(-4.0, 4.0, 2) if step % 5 == 0 else command
        ruling = body.limit(command, place, speed, period)
        names.update(ruling.limited_by)
        for _ in range(parts):
            change, before = ruling.command - speed, speed
            most = 5.0 * period / parts * np.where(speed * change < 0, *gain)
            speed = speed + change.clip(-most, most)
            place = place + period / parts * (before + speed) / 2
            path.append((place, speed))
    return body.geometry, names, path


@pytest.mark.parametrize("period", [0.02, 0.1])
@pytest.mark.parametrize("gain", GAINS.values(), ids=GAINS)
def test_no_point_of_joints_that_speed_up_slowly_or_at_once_is_faster(table, gain, period):
    """A tip limited to 0.5 m/s moved at 0.7 to 3.5 m/s; joints whose speeds cancel do not change them together."""
    limits = {"velocity": {"most": 2.0}, "points": {"tip": {"most": 0.5}}}
    for seed in range(2):
        geometry, names, path = driven_arm(table, seed, limits, gain, period, 150)
        tip = geometry.require_place("tip")
        speeds = np.array([geometry.speeds(at, speeds, speeds, [tip])[0] for at, speeds in path])
        assert "body speed tip" in names
        assert 0.3 < speeds.max() < 0.55


def test_the_highest_speed_of_a_point_is_that_of_the_worst_corner(table):
    geometry, rng = BodyLimits(BodySettings.of({**table, "acceleration": 5.0})).geometry, np.random.default_rng(0)
    tip = geometry.require_place("tip")
    for _ in range(50):
        at, (low, high) = rng.uniform(-3.0, 3.0, 2), np.sort(rng.uniform(-2.0, 2.0, (2, 2)), axis=0)
        corners = [np.array([a, b]) for a in (low[0], high[0]) for b in (low[1], high[1])]
        worst = max(np.linalg.norm(geometry.jacobian(at, tip)[:3] @ corner) for corner in corners)
        assert geometry.speeds(at, low, high, [tip]) == [pytest.approx(worst, rel=1e-9)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joints": ["a", "c"]}, "unknown joint 'c'"),
        ({"points": {"nose": {"most": 1.0}}}, "unknown body or site 'nose'"),
        ({"model": "none.xml"}, "could be read"),
        ({"boxes": {"w": {"low": [-1.0, -1.0, 0.3], "high": [1.0, 1.0, 0.5]}}}, "touches box w"),
        ({"collision": {"ignore": [["upper", "nobody"]]}}, "unknown body or box 'nobody'"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_before_anything_moves(table, change, message):
    with pytest.raises((SamiError, UnknownName)) as refused:
        BodyLimits(BodySettings.of({**table, "velocity": {"most": 1.0}, **change}))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_robot_that_begins_too_close_to_a_box_is_refused_and_nothing_allowed(table):
    boxes = {"wall": {"low": [0.3, -1.0, 0.0], "high": [0.5, 1.0, 2.0]}}
    body = BodyLimits(BodySettings.of({**table, "boxes": boxes}))
    message = r"box wall .* from lower, within its margin of 0\.01 m\. Move it away by its own"
    with pytest.raises(SamiError, match=message):
        body.limit([0.0, 0.0], [0.6, 0.0], [0.0, 0.0], PERIOD)


@pytest.mark.parametrize(("name", "position"), [("panda", 0.01), ("go2", 0.1)])
def test_random_commands_bring_no_robot_beyond_its_limits(name, position):
    """A million of them: tests/real/test_body_limits.py."""
    from tests.making.body_limits import drive

    worst = drive(name, 150, seed=0)
    assert worst["limited"] > 100
    assert worst["position"] <= position
    assert max(worst["velocity"], worst["point"]) <= 0.15
    assert worst["torque"] <= 0.01
    assert worst["overlap"] == 0.0


def test_legs_that_would_swing_through_each_other_to_a_clear_place_are_kept_apart():
    """Random commands of this seed did so: where they came to rest all was clear, and on the way there it was not."""
    from tests.making.body_limits import drive

    worst = drive("go2", 60, seed=1)
    assert worst["overlap"] == 0.0
    assert worst["limited"] > 50


def test_a_hand_that_would_come_closer_before_it_rests_further_off_is_stopped_first():
    """Where the braking joints rest, the hand is further from the table's edge than it is now; before, it is closer."""
    pytest.importorskip("pybullet_data")
    from tests.making.body_limits import ACCELERATION, own_arm_body

    body = BodyLimits(BodySettings.of(own_arm_body()))
    positions = np.array([1.13, 0.77, -0.45, -1.95, 2.11, 2.32, -2.32])
    velocities = np.array([-0.31, -0.05, 1.89, -0.26, -0.56, 1.18, 0.07])
    soon = positions + 0.01 * velocities
    now, next_, last = (
        body.geometry.clearance(pose).distance
        for pose in (positions, soon, soon + velocities * abs(velocities) / (2 * ACCELERATION))
    )
    assert next_ < now < last
    body.begin(velocities)
    body.limit(np.zeros(7), body.geometry.home, np.zeros(7), 0.01)  # an episode begins clear of all
    ruling = body.limit(velocities, positions, velocities, 0.01)
    assert ruling.limited_by == ("body collision box table panda_hand",)
    assert (ruling.command == 0.0).all()


def test_a_margin_is_what_it_says_for_two_shapes_together(table):
    boxes = {"wall": {"low": [0.045, -1.0, 0.0], "high": [0.5, 1.0, 2.0]}}  # 15 mm from the arm's capsules
    body = BodyLimits(BodySettings.of({**table, "boxes": boxes, "collision": {"margin": 0.0149}}))
    assert body.geometry.clearance(np.zeros(2)).pair == ("", "")
    with pytest.raises(SamiError, match=r"the robot touches box wall with (upper|lower) at home, within its margin"):
        BodyLimits(BodySettings.of({**table, "boxes": boxes, "collision": {"margin": 0.0151}}))


def test_a_pair_that_parts_lets_no_other_pair_come_closer(tmp_path):
    (tmp_path / "slides.xml").write_text(SLIDES)
    table = {"model": str(tmp_path / "slides.xml"), "joints": ["a", "b"], "positions": "q", "velocities": "v"}
    table["boxes"] = {"wall": {"low": [0.15, -1.0, -1.0], "high": [0.3, 1.0, 1.0]}}
    body = BodyLimits(
        BodySettings.of({**table, "command": "joint_velocities", "acceleration": 20.0, "collision": {"margin": 0.02}})
    )
    body.limit([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], PERIOD)
    for right in (0.06, 0.085):  # 40 and 15 mm from the wall; left is 5 mm from it and parts
        ruling = body.limit([-0.2, 0.5], [0.095, right], [0.0, 0.0], PERIOD)
        assert ruling.limited_by == ("body collision box wall right",)
        assert PERIOD * ruling.command[1] <= max(0.0, 0.08 - right)
        ruling = body.limit([-0.2, 0.0], [0.095, right], [0.0, 0.0], PERIOD)
        assert ruling.command.tolist() == [-0.2, 0.0], "one that stays where it is does not hinder it"


def test_where_soft_joints_sag_no_other_pair_comes_closer_than_half_of_the_margin(tmp_path):
    (tmp_path / "slides.xml").write_text(SLIDES)
    table = {"model": str(tmp_path / "slides.xml"), "joints": ["a", "b"], "positions": "q", "velocities": "v"}
    table |= {"boxes": {"wall": {"low": [0.15, -1.0, -1.0], "high": [0.3, 1.0, 1.0]}}, "acceleration": 20.0}
    soft = {"command": "joint_positions", "kp": 100.0, "kd": 10.0, "inertia": 0.1, "torque": {"most": 1e3}}
    body = BodyLimits(BodySettings.of({**table, **soft, "collision": {"margin": 0.02}}))
    body.limit([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], PERIOD)
    limited_by = []
    for right in (0.11, 0.12):  # to 12 and 8 mm from the wall; left is 5 mm from it and parts
        limited_by.append(body.limit([0.05, right], [0.095, 0.078], [0.0, 0.0], PERIOD).limited_by)
    assert limited_by == [(), ("body collision box wall right",)]
