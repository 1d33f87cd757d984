"""A part that is done is not done again, unless it would be another."""

import pytest

from sami_train.studies.report.parts import PartStore


def test_a_part_is_made_once_for_each_key(tmp_path):
    calls = []

    def make():
        calls.append(len(calls))
        return {"number": len(calls)}

    store = PartStore(tmp_path / "parts")
    assert store.part("maps", {"weights": "a"}, make) == {"number": 1}
    assert PartStore(tmp_path / "parts").part("maps", {"weights": "a"}, make) == {"number": 1}
    assert store.part("maps", {"weights": "b"}, make) == {"number": 2}
    assert calls == [0, 1]


def test_a_damaged_part_is_made_anew(tmp_path):
    store = PartStore(tmp_path)
    store.part("maps", {}, lambda: [1])
    (tmp_path / "maps.json").write_text('{"key": ')
    assert store.part("maps", {}, lambda: [2]) == [2]
    assert store.part("maps", {}, lambda: [3]) == [2]


def test_a_part_that_fails_leaves_the_others(tmp_path):
    store = PartStore(tmp_path)
    store.part("episodes", {}, lambda: [1])

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.part("maps", {}, fail)
    assert store.part("episodes", {}, lambda: [2]) == [1]
    assert not (tmp_path / "maps.json").exists()
