"""Which model files are let in, wherever one comes from: named at the start, or swapped in while another drives."""

import hashlib

import pytest

from sami_runtime import ManualClock, Run
from sami_runtime.checks.verify import verify
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.model.artifact import read_bytes
from sami_runtime.model.signing import new_key, private_key, sign
from sami_runtime.session import admission as module
from sami_runtime.session.admission import Admission

pytest.importorskip("cryptography")


@pytest.fixture
def rehearsals(monkeypatch):
    """What was rehearsed."""
    results = []
    monkeypatch.setattr(module, "rehearse", lambda artifact, provider: results.append(artifact.path))
    return results


@pytest.fixture
def keys(tmp_path):
    return new_key(tmp_path / "ada.key", "Ada")


def test_a_file_of_the_expected_hash_is_let_in_and_no_other(make, path, rehearsals):
    expected = Admission(sha256=hashlib.sha256(path.read_bytes()).hexdigest().upper())
    assert expected.load(path).contract.name == "tiny"
    other = make.write(make.memoryless())
    with pytest.raises(
        ArtifactError, match=r"has SHA-256 [0-9a-f]{64}, expected [0-9a-f]{64}\. This is not the expected file"
    ):
        expected.load(other)
    assert expected.without_hash.load(other).contract.name == "reflex"
    assert rehearsals == [path, other]


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "0" * 63, f"{'0' * 64}  a.onnx"])
def test_what_is_no_hash_is_refused_and_not_taken_for_any_file(digest):
    with pytest.raises(SamiError, match="give the 64 digits that sha256sum prints, no file name"):
        Admission(sha256=digest)


def test_only_files_of_trusted_people_are_let_in(path, keys, tmp_path, rehearsals):
    trusting = Admission(trusted=keys)
    with pytest.raises(ArtifactError, match="is not signed"):
        trusting.load(path)
    assert rehearsals == [], "before anything of it is run, in whatever process"
    sign(path, path.read_bytes(), private_key(tmp_path / "ada.key"))
    trusting.load(path)


def test_the_bytes_of_shipped_models_are_not_tried_and_a_shipped_name_with_other_bytes_is(tmp_path, rehearsals):
    shipped = shipped_models()["panda-satesac"]
    Admission().admit(shipped)
    copy = tmp_path / "panda-satesac.onnx"
    copy.write_bytes(shipped.read_bytes())
    Admission().admit(copy)
    assert rehearsals == []
    copy.write_bytes(shipped.read_bytes() + b"\x72\x00")  # an empty entry of metadata
    Admission().admit(copy)
    assert rehearsals == [copy]


def test_a_link_that_is_turned_while_a_file_is_read_hides_nothing(path, tmp_path, rehearsals, monkeypatch):
    shipped, link = shipped_models()["panda-satesac"], tmp_path / "link.onnx"
    link.symlink_to(path)

    def read_and_turn(path):
        data = read_bytes(path)
        path.unlink()
        path.symlink_to(shipped)
        return data

    monkeypatch.setattr("sami_runtime.session.admission.read_bytes", read_and_turn)
    artifact = Admission().admit(link)
    assert (rehearsals, artifact.model_bytes) == ([link], path.read_bytes())


def test_a_file_that_is_swapped_in_is_let_in_by_the_same_rules(make, path, keys, arm, tmp_path, rehearsals):
    sign(path, path.read_bytes(), private_key(tmp_path / "ada.key"))
    admission = Admission(trusted=keys)
    newer = make.write(make.recurrent(seed=1))
    with Run(admission.load(path), arm(), ManualClock(), simulator=True, admission=admission) as run:
        with pytest.raises(ArtifactError, match="is not signed"):
            run.swap(newer)
        sign(newer, newer.read_bytes(), private_key(tmp_path / "ada.key"))
        run.swap(newer)
    assert rehearsals == [path, newer]


def test_verify_checks_what_is_asked_for(make, policy, keys, tmp_path, monkeypatch):
    path = make.write(policy, golden=make.golden_of(policy))
    sign(path, path.read_bytes(), private_key(tmp_path / "ada.key"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = verify(path, admission=Admission(digest, keys, rehearsed=False))
    assert {check.name: check.detail for check in report.checks if check.name in ("SHA-256", "signature")} == {
        "SHA-256": f"{digest[:16]}..., as expected",
        "signature": "by Ada",
    }
    assert report.passed
    wrong = verify(path, admission=Admission("0" * 64, keys))
    assert [(check.name, check.passed) for check in wrong.checks] == [("file", True), ("SHA-256", False)]
    monkeypatch.setattr("sami_runtime.checks.verify.rehearse", lambda *_: None)
    assert "rehearsal" in [check.name for check in verify(path, admission=Admission()).checks]
