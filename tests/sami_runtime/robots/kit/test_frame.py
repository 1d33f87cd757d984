"""Frames and rotations: what goes through one and back is where it was; a calibration finds the truth or refuses."""

import numpy as np
import pytest

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit import Frame, matrix_from_rpy, matrix_from_xyzw, rpy_from_matrix, xyzw_from_matrix
from sami_runtime.robots.kit.rotation import rotation_vector

rng = np.random.default_rng(16)


def any_frame():
    return Frame.of(rng.normal(size=3), rpy=rng.uniform(-np.pi, np.pi, 3))


def test_points_go_there_and_back_and_through_two_frames_as_through_one():
    points = rng.normal(size=(50, 3))
    for _ in range(20):
        frame, other = any_frame(), any_frame()
        np.testing.assert_allclose(frame.inverse.points(frame.points(points)), points, atol=1e-12)
        np.testing.assert_allclose((frame @ other).points(points), frame.points(other.points(points)), atol=1e-12)
        np.testing.assert_allclose((frame @ frame.inverse).matrix, np.eye(4), atol=1e-12)


def test_a_vector_has_no_origin_and_a_rotation_turns_with_the_axes():
    frame = Frame.of([5.0, 5.0, 5.0], rpy=[0.0, 0.0, np.pi / 2])
    np.testing.assert_allclose(frame.vectors([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(frame.points([1.0, 0.0, 0.0]), [5.0, 6.0, 5.0], atol=1e-12)
    turned = matrix_from_rpy([0.3, 0.0, 0.0])
    np.testing.assert_allclose(frame.rotations(turned) @ [1, 0, 0], frame.vectors(turned @ [1, 0, 0]), atol=1e-12)


def test_one_turn_told_in_three_ways_is_one_frame():
    for _ in range(50):
        rpy = rng.uniform([-np.pi, -np.pi / 2, -np.pi], [np.pi, np.pi / 2, np.pi])
        frame = Frame.of([1, 2, 3], rpy=rpy)
        np.testing.assert_allclose(frame.rpy, rpy, atol=1e-9)
        np.testing.assert_allclose(Frame.of([1, 2, 3], xyzw=frame.xyzw).matrix, frame.matrix, atol=1e-12)
        np.testing.assert_allclose(Frame.of([1, 2, 3], xyzw=-frame.xyzw).matrix, frame.matrix, atol=1e-12)
        np.testing.assert_allclose(Frame.of([1, 2, 3], rotation=frame.rotation).matrix, frame.matrix, atol=1e-12)


def test_half_turns_and_an_upright_pitch_are_told_back():
    for rpy in ([np.pi, 0, 0], [0, 0, np.pi], [0.4, np.pi / 2, 0.3], [0.4, -np.pi / 2, 0.3]):
        turned = matrix_from_rpy(rpy)
        np.testing.assert_allclose(matrix_from_rpy(rpy_from_matrix(turned)), turned, atol=1e-7)
        np.testing.assert_allclose(matrix_from_xyzw(xyzw_from_matrix(turned)), turned, atol=1e-12)


def test_euler_angles_and_quaternions_are_those_of_the_simulator():
    pybullet = pytest.importorskip("pybullet")
    for _ in range(50):
        xyzw = rng.normal(size=4)
        xyzw /= np.linalg.norm(xyzw)
        np.testing.assert_allclose(
            rpy_from_matrix(matrix_from_xyzw(xyzw)), pybullet.getEulerFromQuaternion(xyzw), atol=1e-6
        )
        expected = np.reshape(pybullet.getMatrixFromQuaternion(xyzw), (3, 3))
        np.testing.assert_allclose(matrix_from_xyzw(xyzw), expected, atol=1e-9)


def test_a_rotation_vector_is_the_axis_times_the_angle():
    for angle in (0.0, 1e-9, 1e-3, 1.0, 3.1, np.pi - 1e-9):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        half = np.append(axis * np.sin(angle / 2), np.cos(angle / 2))
        np.testing.assert_allclose(rotation_vector(matrix_from_xyzw(half)), axis * angle, atol=1e-7)


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_a_calibration_finds_the_frame_that_the_points_came_through(noise):
    for _ in range(20):
        truth, points = any_frame(), rng.uniform(-0.5, 0.5, (8, 3))
        measured = truth.points(points) + noise * rng.uniform(-1, 1, (8, 3))
        fit = Frame.fit(points, measured)
        np.testing.assert_allclose(fit.points(points), measured, atol=1e-9 + 3 * noise)
        np.testing.assert_allclose(fit.rotation, truth.rotation, atol=1e-9 + 20 * noise)


def test_three_points_on_a_table_are_enough():
    truth, points = any_frame(), np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.2, 0]])
    np.testing.assert_allclose(Frame.fit(points, truth.points(points)).matrix, truth.matrix, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a[:2], b[:2]), "2 of their points and 2 of ours were given"),
        (lambda a, b: (a, b[:4]), "6 of their points and 4 of ours"),
        (
            lambda a, b: (a * [1, 0, 0], b),
            "their 6 points lie on a line: .* m along it, and 0 m across",
        ),
        (lambda a, b: (a, b * [1, 1, -1]), "with a mirrored axis only by .* left-handed"),
        (lambda a, b: (1000 * a, b), "spread 0.001 times as far as theirs: give both in metres"),
        (lambda a, b: (a, b + 0.03 * np.eye(6, 3, -2)), "off by 0.0.* m, .* allowed are 0.005 m"),
        (lambda a, b: (a, np.roll(b, 1, axis=0)), "the points do not fit.*in the same order"),
        (lambda a, b: (a * np.nan, b), "must be finite"),
        (lambda a, b: (a[:, :2], b), "has shape"),
    ],
)
def test_a_calibration_that_cannot_be_right_is_refused_with_numbers(change, message):
    points = np.array([[0, 0, 0], [0.3, 0, 0.02], [0, 0.2, 0.1], [0.2, 0.3, 0], [0.1, 0.1, 0.25], [-0.2, 0.1, 0.1]])
    measured = Frame.of([0.4, -0.2, 0.6], rpy=[2.0, 0.3, -1.0]).points(points)
    with pytest.raises(AdapterError, match=message):
        Frame.fit(*change(points, measured))


def test_what_is_no_frame_is_refused():
    with pytest.raises(AdapterError, match="has length 2, not 1"):
        Frame.of(xyzw=[0, 0, 0, 2])
    with pytest.raises(AdapterError, match="turned in one way, and xyzw and rpy were given"):
        Frame.of(xyzw=[0, 0, 0, 1], rpy=[0, 0, 0])
    with pytest.raises(AdapterError, match="mirrored"):
        Frame.of(rotation=np.diag([1, 1, -1]))
    with pytest.raises(AdapterError, match="no rotation, but off by"):
        Frame.of(rotation=2 * np.eye(3))
    with pytest.raises(AdapterError, match="last row"):
        Frame(np.ones((4, 4)))


def test_a_frame_stays_as_it_is():
    frame = any_frame()
    with pytest.raises(ValueError, match="read-only"):
        frame.translation[0] = 1.0
