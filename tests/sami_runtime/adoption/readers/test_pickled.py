"""Pickles and torch archives are read as data: nothing that they name is imported or called."""

import collections
import io
import os
import pickle
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from sami_runtime.adoption.readers import pickled
from sami_runtime.adoption.readers.pickled import Call, array_of, pickle_tree, torch_tree
from sami_runtime.errors import ArtifactError


class Harmful:
    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_a_pickle_that_runs_code_is_read_and_runs_nothing(tmp_path):
    harmful = Harmful()
    harmful.folder = str(tmp_path / "made")
    tree = pickle_tree(pickle.dumps({"weights": harmful}), "test")
    assert tree["weights"].function.endswith(".mkdir")
    assert not (tmp_path / "made").exists()


def test_a_pickle_imports_no_module():
    data = b"cantigravity\nfly\n(tR."
    assert pickle_tree(data, "test").function == "antigravity.fly"
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, -2, 3 << 40, 0.5, True, "text", b"bytes"],
        {"a": {"b": (1, 2, 3, 4)}, "c": [()]},
        {"1": collections.OrderedDict(a=1)},
    ],
)
def test_plain_values_are_those_that_pickle_itself_reads(value, protocol):
    def plain(entry):
        if isinstance(entry, Call):  # an ordered dictionary; text codecs of protocol 0 to 2 for bytes
            return dict(entry.state) if "OrderedDict" in entry.function else entry.arguments[0].encode("latin1")
        if isinstance(entry, dict):
            return {key: plain(item) for key, item in entry.items()}
        return [plain(item) for item in entry] if isinstance(entry, list) else entry

    tree = pickle_tree(pickle.dumps(value, protocol), "test")
    assert plain(tree) == value


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))  # older ones write bytes as text
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", ">f4", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_arrays_are_those_that_pickle_itself_reads(dtype, shape, protocol):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    result = array_of(pickle_tree(pickle.dumps(array, protocol), "test"))
    assert result.tolist() == array.tolist()
    assert result.shape == shape


def test_an_array_of_fortrans_order_is_read_in_it():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert array_of(pickle_tree(pickle.dumps(array, 4), "test")).tolist() == array.tolist()


def test_tensors_of_torch_are_those_that_torch_itself_reads():
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float64).reshape(4, 6)
    layer = torch.nn.Linear(3, 2)
    tensors = {
        "whole": base,
        "transposed": base.T,
        "part": base[1:3, 2:],
        "scalar": torch.tensor(2.5),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.ones(3, dtype=torch.float16),
        "layer": layer.state_dict(),
        "empty": torch.zeros(0, 3),
        "optimizer": {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1}]},
    }
    stream = io.BytesIO()
    torch.save(tensors, stream)
    tree = torch_tree(stream.getvalue(), "test")
    for name in ("whole", "transposed", "part", "scalar", "parameter", "half", "empty"):
        np.testing.assert_array_equal(tree[name], tensors[name].detach().numpy())
    assert list(tree["layer"]) == ["weight", "bias"]
    np.testing.assert_array_equal(tree["layer"]["weight"], layer.weight.detach().numpy())


def archive(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return stream.getvalue()


def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(pickled, "MAX_ARCHIVE_BYTES", 1 << 20)
    with pytest.raises(ArtifactError, match="would unpack to"):
        torch_tree(archive({f"a/{i}": bytes(1 << 17) for i in range(9)}), "bomb")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no zip archive"),
        (b"PK\x03\x04" + bytes(100), "is no zip archive"),
        (archive({"x": b""}), "has no data.pkl"),
        (archive({"a/data.pkl": b""}), "is damaged"),
        (archive({"a/data.pkl": b"\x80\x04.", "a/byteorder": b"big"}), "big-endian"),
    ],
)
def test_what_torch_did_not_write_is_refused_in_one_line(data, message):
    with pytest.raises(ArtifactError, match=message) as refused:
        torch_tree(data, "file.pt")
    assert "\n" not in str(refused.value)


def test_a_tensor_that_is_larger_than_its_data_is_refused():
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(2, 3)}, stream)
    files = {name: zipfile.ZipFile(stream).read(name) for name in zipfile.ZipFile(stream).namelist()}
    short = {name: content[:-4] if "/data/" in name else content for name, content in files.items()}
    with pytest.raises(ArtifactError, match="larger than its data"):
        torch_tree(archive(short), "file.pt")


def test_no_damage_to_an_archive_escapes_as_another_error():
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save({"policy": torch.nn.Linear(3, 2).state_dict()}, stream)
    whole = zipfile.ZipFile(stream)
    files = {name: whole.read(name) for name in whole.namelist()}
    (name,) = [name for name in files if name.endswith("data.pkl")]
    random = np.random.default_rng(0)
    for _ in range(1000):
        damaged = bytearray(files[name])
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] = random.integers(256)
        if random.random() < 0.2:
            del damaged[random.integers(len(damaged)) :]
        with suppress(ArtifactError):
            torch_tree(archive(files | {name: bytes(damaged)}), "damaged")
    for end in range(0, len(stream.getvalue()), 37):
        with pytest.raises(ArtifactError):
            torch_tree(stream.getvalue()[:end], "cut off")


MANY = b"(" + b"N" * 50_000


@pytest.mark.parametrize(
    "data",
    [
        MANY + b"tq\x000cf\ng\n)R" + b"h\x00b" * 50_000,
        MANY + b"lq\x000(" + b"cf\ng\nh\x00R" * 50_000 + b"l",
        b"X\x00\x00\x01\x00" + b"a" * 65536 + b"q\x000(" + b"h\x00h\x00\x93" * 50_000 + b"l",
        b"}q\x00(" + b"".join(b"U\x05%05dN" % key for key in range(50_000)) + b"u0cf\ng\n)R" + b"h\x00b" * 50_000,
        b"}(" + b"".join(b"U\x05%05dN" % key for key in range(50_000)) + b"uN\x86q\x000cf\ng\n)R" + b"h\x00b" * 50_000,
    ],
    ids=["state", "arguments", "names", "table", "one of two tables"],
)
def test_a_pickle_whose_opcodes_copy_what_came_before_is_refused_before_it_fills_the_memory(data):
    with pytest.raises(ArtifactError, match="more than 500000 opcodes and parts that they copy"):
        pickle_tree(b"\x80\x02" + data + b".", "test")


def test_long_bytes_which_old_protocols_write_as_text_are_no_copies():
    assert len(pickle_tree(pickle.dumps([bytes(1_000_000)] * 2, 2), "test")[1].arguments[0]) == 1_000_000


def test_a_tree_that_shares_its_branches_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(pickled, "MAX_ARCHIVE_BYTES", 1 << 20)
    tree = {}
    for _ in range(28):
        tree = {"a": tree, "b": tree}
    with pytest.raises(ArtifactError, match="holds more than"):
        torch_tree(archive({"a/data.pkl": pickle.dumps(tree)}), "bomb")
