"""Signed model files: a robot can be told whose files it runs, and one changed bit makes a file nobody's."""

import json
import stat
import subprocess
import sys

import numpy as np
import pytest

from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.model import signature
from sami_runtime.model.signature import require_signed, signature_of, trusted_keys
from sami_runtime.model.signing import new_key, private_key, sign

pytest.importorskip("cryptography")


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "ada.key", "Ada, lab 3")
    return tmp_path / "ada.key"


@pytest.fixture
def keys(key):
    return trusted_keys(key.with_suffix(".pub"))


@pytest.fixture
def signed(path, key):
    sign(path, path.read_bytes(), private_key(key))
    return path


def test_a_signed_file_is_its_signers(signed, keys):
    assert require_signed(signed, signed.read_bytes(), keys) == "Ada, lab 3"
    assert signature_of(signed).name == f"{signed.name}.sig"


def test_no_bit_of_a_file_or_its_signature_can_be_changed(signed, keys):
    data, sidecar = signed.read_bytes(), signature_of(signed)
    draw, whole = np.random.default_rng(0), sidecar.read_bytes()
    for at in draw.integers(0, len(data), 50):
        content = bytearray(data)
        content[at] ^= 1 << draw.integers(8)
        with pytest.raises(ArtifactError, match="is not the file that Ada, lab 3"):
            require_signed(signed, bytes(content), keys)
    document = json.loads(whole)
    for field in ("key", "signature"):
        for at in range(0, len(document[field]), 7):
            digits = document[field]
            other = digits[:at] + ("0" if digits[at] != "0" else "1") + digits[at + 1 :]
            sidecar.write_text(json.dumps({**document, field: other}))
            with pytest.raises(ArtifactError, match=r"is not the file that|is not trusted"):
                require_signed(signed, data, keys)


def test_the_hash_in_a_signature_is_not_what_is_believed(signed, keys, make, policy):
    """Somebody may put another file's hash there; the file's own is what was signed, or was not."""
    other = make.write(make.memoryless())
    signature_of(other).write_bytes(signature_of(signed).read_bytes())
    with pytest.raises(ArtifactError, match="is not the file that"):
        require_signed(other, other.read_bytes(), keys)


def test_a_file_that_nobody_or_somebody_else_signed_is_refused(path, key, keys, tmp_path):
    with pytest.raises(ArtifactError, match=r"is not signed: there is no .*\.onnx\.sig"):
        require_signed(path, path.read_bytes(), keys)
    new_key(tmp_path / "eve.key", "Eve")
    sign(path, path.read_bytes(), private_key(tmp_path / "eve.key"))
    with pytest.raises(ArtifactError, match="which is not trusted; trusted are: Ada, lab 3"):
        require_signed(path, path.read_bytes(), keys)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', "[" * 100_000, '{"version": 1, "key": 3}'])
def test_what_is_no_signature_is_refused(signed, keys, text):
    signature_of(signed).write_text(text)
    with pytest.raises(ArtifactError, match="is no signature of version 1"):
        require_signed(signed, signed.read_bytes(), keys)


def test_a_private_key_is_for_its_owner_and_replaces_none(key):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    with pytest.raises(SamiError, match=r"ada\.key exists, and a key is never replaced"):
        new_key(key, "Eve")
    assert key.read_bytes() == before
    with pytest.raises(SamiError, match=r"new\.pub would be the file of the public key; .*: new\.key"):
        new_key(key.with_name("new.pub"), "Eve")
    assert not key.with_name("new.pub").exists(), "no private key in a file that is for others"
    with pytest.raises(SamiError, match="write it in one line of printable characters"):
        new_key(key.with_name("b.key"), "a\nb")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds no key"), ("# nobody\n\n", "holds no key"), ("ab12 Ada", "line 1, is no public key")],
)
def test_what_is_no_file_of_keys_is_refused(tmp_path, text, message):
    (tmp_path / "keys").write_text(text)
    with pytest.raises(SamiError, match=message):
        trusted_keys(tmp_path / "keys")


@pytest.mark.parametrize(
    "content", [b"", b"nothing", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_private_key_is_refused(path, tmp_path, content):
    (tmp_path / "no.key").write_bytes(content)
    with pytest.raises(SamiError, match=r"no\.key is no private key"):
        sign(path, path.read_bytes(), private_key(tmp_path / "no.key"))
    (tmp_path / "no.pub").write_bytes(content)
    with pytest.raises(SamiError, match=r"no\.pub is a public key. Give the private one: .*no\.key\.$"):
        private_key(tmp_path / "no.pub")


def test_without_the_package_the_message_names_the_extra(path, key, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SamiError, match=r"signatures need the package cryptography: .*sign"):
        require_signed(path, path.read_bytes(), keys)


def test_nothing_of_it_is_imported_unless_it_is_asked_for():
    script = "import sys, sami_runtime, sami_runtime.session.admission; assert 'cryptography' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert not hasattr(signature, "cryptography")
