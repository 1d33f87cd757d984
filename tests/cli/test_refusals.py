"""What the command line refuses: one message that says what would be valid, and nothing changed."""

import json
import shutil
from pathlib import Path

import pytest

from sami_runtime.distribution import upgrade_hint
from sami_runtime.errors import SamiError


def refused(result, code=1):
    """The one message of an error of ours."""
    assert result.code == code, result
    assert "Traceback" not in result.err
    assert result.err.startswith("sami: ")
    assert result.err.count("sami: ") == 1
    return result.err.removeprefix("sami: ").rstrip("\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("run", "--nosuch"),
        ("run", "--episodes", "0"),
        ("run", "--seed", "first"),
        ("eval",),
        ("eval", "--run", "a", "--model", "b"),
        ("export", "--run", "a"),
        ("atlas", "panda-satesac", "--check", "0"),  # it writes nothing, so 0 must not measure a new reference
        ("verify",),
    ],
)
def test_wrong_usage_exits_with_2(sami, arguments):
    result = sami(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: " in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --env Pandas", "unknown environment 'Pandas'. Did you mean 'panda'? Valid: "),
        ("train --method satsac", "unknown method 'satsac'. Did you mean 'satesac'? Valid: "),
        ("train --preset papr", "unknown preset 'papr'. Did you mean 'paper'? Valid: fast-cpu, paper."),
        ("train --set learning.discont=0.9", "'learning.discont'. Did you mean 'learning.discount'? Valid: "),
        (
            "train --set learning.discount",
            "'learning.discount' is not KEY=VALUE, e.g. learning.discount=0.97.",
        ),
        ("train --set learning.discount=abc", "learning.discount is 'abc'; it must be of type float."),
        ("train --set learning.discount=2", "learning.discount is 2.0; it must lie between 0 and 1."),
        ("train --set learning=3", "learning is 3; it must be a table of values."),
        ("train --steps 0", "steps is 0; it must be at least 1."),
        ("train --set method=tesac", "method has its own option; give --method instead of --set method=..."),
        ("train --steps 9 --set steps=8", "steps has its own option; give --steps instead of --set steps=..."),
        ("train --gap modest --set gap=x", "gap has its own option; give --gap instead of --set gap=..."),
        *[
            (f"train --resume nothing {option}", "with its own configuration, in its folder; leave out --init, --set,")
            for option in ("--gap modest", "--method tesac", "--seed 3", "--out other", "--preset paper", "--init RUN")
        ],
        ("train --resume nothing", "there is no run folder nothing; `sami train --out nothing` makes one."),
        ("eval --run nothing", "there is no run folder nothing"),
        (
            "eval --model nothing.onnx",
            "nothing.onnx cannot be read: No such file or directory. Give the path of a .onnx file; sami export",
        ),
        ("eval --model MODEL --env mars", "unknown environment 'mars'. Valid: "),
        ("eval --model MODEL --tasks trainng", "'trainng'. Did you mean 'training'? Valid: "),
        ("export --run nothing --out x.onnx", "there is no run folder nothing"),
        ("export --run RUN --out x.txt", "x.txt does not end in .onnx; a model file is NAME.onnx."),
        ("inspect .", ". cannot be read: it is a directory. Give the path of a .onnx file;"),
        ("run --model nothing.onnx", "nothing.onnx cannot be read: No such file"),
        ("run --model MODEL --set shadow_tolerance=0.1", "shadow_tolerance is for comparison with a second model"),
        (
            "run --model MODEL --render no/a.gif",
            "cannot write no/a.gif; --render takes NAME.gif in a folder that exists",
        ),
        (
            "run --model MODEL --gap nothing.toml",
            "nothing.toml cannot be read: No such file or directory.",
        ),
        ("atlas MODEL --set gap=none", "gap goes with --check; a reference is measured with the profile of the policy"),
        ("atlas MODEL --check 2 --set window=3", "--check measures what is there and writes nothing; leave out"),
        ("atlas MODEL --env hopper", "was trained in panda, but --env hopper does not have the signals that it reads"),
        ("robustness MODEL --gap latncy", "unknown kind of disturbance 'latncy'. Did you mean 'latency'?"),
        ("robustness MODEL --out /proc/x", "/proc/x cannot be written: No such file or directory. Make room or choose"),
        ("verify nothing.onnx", "nothing.onnx cannot be read: No such file or directory. Give the path of"),
        ("verify .", ". cannot be read: it is a directory. Give the path of a .onnx file;"),
        ("run --model MODEL --env Panda3", "unknown environment 'Panda3'. Did you mean 'panda'? Valid: "),
        (
            "run --model MODEL --render giff",
            "unknown renderer 'giff'. Did you mean 'gif'? Valid: gif, human.",
        ),
        ("run --model MODEL --tasks extrem", "unknown task set 'extrem'. Did you mean 'extreme'? Valid: "),
        ("run --model MODEL --fix mass=-1", "mass is -1.0; it must be a number greater than 0 kg."),
        ("run --model MODEL --fix mass=nan", "mass is nan; it must be a number greater than 0 kg."),
        ("run --model MODEL --fix friction=-0.1", "friction is -0.1; it must be a number at least 0"),
    ],
)
def test_a_refusal_is_one_message_and_leaves_nothing_behind(sami, panda, contents, tmp_path, arguments, message):
    before = contents(panda.run), contents(tmp_path)
    words = [{"MODEL": panda.model, "RUN": panda.run}.get(word, word) for word in arguments.split()]
    assert message in refused(sami(*words))
    assert (contents(panda.run), contents(tmp_path)) == before


@pytest.mark.parametrize("command", ["run --model", "eval --model", "robustness", "atlas", "adapt --change x --model"])
def test_a_model_that_does_not_say_its_environment_needs_one_by_name(sami, rewritten, command):
    silent = rewritten(lambda contract: contract["training"].pop("env"))
    assert "does not name its training environment; name one with --env." in refused(sami(*command.split(), silent))


@pytest.mark.parametrize("command", ["eval --run RUN", "export --run RUN --out x.onnx", "train --resume RUN"])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda old: old[:100], "run.json cannot be read: "),
        ("run.json", lambda old: b"[]", "run.json holds a list; it must hold a JSON object."),
        (
            "run.json",
            lambda old: old.replace(b'"version": 1', b'"version": 9'),
            "is of run version 9; this sami reads version 1.",
        ),
        ("run.json", None, "has no run.json: it is not a run folder, or its creation was interrupted."),
        ("config.json", None, "has no config.json: it is not a run folder, or its creation was interrupted."),
    ],
)
def test_a_damaged_run_is_refused_and_left_as_it_was(
    sami, run_copy, contents, tmp_path, command, name, change, message
):
    path = run_copy / name
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    before = contents(tmp_path)
    assert message in refused(sami(*command.replace("RUN", str(run_copy)).split()))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", ["eval --run RUN", "export --run RUN --out x.onnx"])
def test_a_truncated_or_missing_agent_is_refused(sami, run_copy, contents, tmp_path, command):
    words = command.replace("RUN", str(run_copy)).split()
    shutil.rmtree(run_copy / "checkpoints")
    agent = run_copy / "agent.zip"
    agent.write_bytes(agent.read_bytes()[:1000])
    before = contents(tmp_path)
    assert "agent.zip cannot be loaded: " in refused(sami(*words))
    assert contents(tmp_path) == before
    agent.unlink()
    assert "holds no agent and no checkpoint yet" in refused(sami(*words))


def test_a_taken_out_folder_is_refused_and_left_as_it_was(sami, run_copy, contents, small):
    before = contents(run_copy)
    message = refused(sami("train", "--steps", 700, *small(), "--out", run_copy, "-q"))
    assert "not empty; no run folder is replaced. Resume it with --resume, or choose another --out." in message
    assert "finished its 700 steps; evaluate it with: " in refused(sami("train", "--resume", run_copy))
    assert contents(run_copy) == before


def test_export_replaces_a_file_only_with_force(sami, panda, tmp_path):
    out = tmp_path / "taken.onnx"
    out.write_bytes(b"precious")
    arguments = (
        "export",
        "--run",
        panda.run,
        "--set",
        "card=false",
        "--set",
        "atlas_episodes=0",
        "--set",
        "seen_episodes=0",
        "--out",
        out,
    )
    assert "taken.onnx exists; choose another name, or replace it with --force." in refused(sami(*arguments))
    assert out.read_bytes() == b"precious"
    assert sami(*arguments, "--force").code == 0
    assert sami("verify", out).code == 0


def test_a_changed_byte_of_the_weights_is_found(sami, panda, tmp_path):
    data = bytearray(panda.model.read_bytes())
    data[len(data) // 3] ^= 1
    path = tmp_path / "flipped.onnx"
    path.write_bytes(data)
    outcome = sami("verify", path)
    assert (outcome.code, outcome.err) == (4, "")
    assert "FAILED" in outcome.out
    assert "was changed after its export" in outcome.out
    result = json.loads(sami("verify", path, "--json").out)
    assert (result["passed"], [c["name"] for c in result["checks"] if not c["passed"]]) == (
        False,
        ["weights"],
    )
    assert "was changed after its export: its graph has SHA-256" in refused(sami("run", "--model", path))


def test_a_truncated_model_is_refused(sami, panda, tmp_path):
    path = tmp_path / "half.onnx"
    path.write_bytes(panda.model.read_bytes()[:50_000])
    for command in ("inspect half", "run --model half", "eval --model half"):
        message = refused(sami(*command.replace("half", str(path)).split()))
        assert "half.onnx is not a complete ONNX file (50000 bytes): " in message
    assert sami("verify", path).code == 4


def test_a_model_of_a_newer_contract_is_refused(sami, rewritten):
    path = rewritten(lambda contract: contract.update(version=2))
    for command in ("inspect NEW", "run --model NEW", "eval --model NEW"):
        message = refused(sami(*command.replace("NEW", str(path)).split()))
        expected = f"has contract version 2; this sami_runtime reads version 1. Upgrade with: {upgrade_hint()}"
        assert message.endswith(expected)


def test_a_model_for_other_signals_names_those_that_do_not_match(sami, rewritten):
    old, new = "observation.cube_position", "observation.object_position"

    def rename(graph):
        for value in graph.input:
            value.name = new if value.name == old else value.name
        for node in graph.node:
            node.input[:] = [new if name == old else name for name in node.input]

    path = rewritten(lambda contract: contract["observation"][0].update(name="object_position"), rename)
    message = refused(sami("run", "--model", path, "--episodes", 1, "--json"))
    assert "does not fit GymnasiumAdapter: observation 'object_position' is not provided." in message
    assert "GymnasiumAdapter provides cube_position (3, m)" in message


def test_debug_raises_the_error(sami):
    from sami_runtime.errors import ArtifactError

    for arguments in (("--debug", "inspect", "no.onnx"), ("inspect", "no.onnx", "--debug")):
        with pytest.raises(ArtifactError, match=r"no\.onnx cannot be read"):
            sami(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --set learning.discount=1 --out new", "learning.discount is 1.0; "),
        ("train --set device=gpu --out new", "unknown device 'gpu'"),
        ("eval --model MODEL --tasks ,", "no task set was given"),
        ("run --model MODEL --episodes 1 --render nowhere/film.gif", "nowhere"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_done(
    garbage_collected, sami, panda, contents, tmp_path, small, arguments, message
):
    before = contents(tmp_path)
    words = [str(panda.model) if word == "MODEL" else word for word in arguments.split()]
    if words[0] == "train":
        words += ["--steps", "400", "-q", *small()[:6]]
    result = sami(*words)
    assert message in refused(result)
    assert "Error" not in result.err
    assert result.out == ""
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["agent.zip", "buffer.npz"])
def test_resuming_from_a_damaged_checkpoint_says_which_file(garbage_collected, sami, run_copy, contents, name):
    shutil.rmtree(run_copy / "checkpoints")
    checkpoint = run_copy / "checkpoints" / "300"
    checkpoint.mkdir(parents=True)
    agent = (run_copy / "agent.zip").rename(checkpoint / "agent.zip")
    (checkpoint / "buffer.npz").write_bytes(b"")
    (checkpoint / name).write_bytes(agent.read_bytes()[:1000])
    before = contents(run_copy)
    message = refused(sami("train", "--resume", run_copy, "-q"))
    assert f"{name} cannot be loaded: " in message
    lock = Path("lock")  # names the process that held it last
    assert contents(run_copy) | {lock: b""} == before | {lock: b""}


@pytest.mark.parametrize("text", ['{"env": ', "{}"])
def test_a_damaged_evaluation_is_refused_before_a_model_is_written(sami, run_copy, contents, tmp_path, text):
    (run_copy / "evaluation.json").write_text(text)
    before = contents(tmp_path)
    assert "evaluation.json" in refused(sami("export", "--run", run_copy, "--out", "x.onnx"))
    assert contents(tmp_path) == before


def test_an_export_that_fails_writes_nothing_and_names_the_model_last(sami, panda, tmp_path, monkeypatch):
    from sami_runtime import files
    from sami_train.export.export_run import export_run
    from sami_train.runs.folder import RunFolder

    def fail(artifact):
        assert artifact.contract.golden, "the model is whole and verified before anything is added to it"
        assert not list(tmp_path.glob("*.onnx*")), "nothing is written before everything is measured"
        raise SamiError("no forward model")

    with pytest.raises(SamiError, match="no forward model"):
        export_run(RunFolder.open(panda.run), tmp_path / "x.onnx", atlas_episodes=0, additions=[fail])
    assert not [path for path in tmp_path.iterdir() if path.is_file()]

    put_in_place, names = files._put_in_place, []

    def stop(temporary, path, backup):
        names.append(path.name)
        if path.suffix == ".onnx":
            raise KeyboardInterrupt
        put_in_place(temporary, path, backup)

    monkeypatch.setattr(files, "_put_in_place", stop)
    with pytest.raises(KeyboardInterrupt):
        export_run(RunFolder.open(panda.run), tmp_path / "x.onnx", atlas_episodes=0)
    assert (names[-1], sorted(names)) == ("x.onnx", ["x.md", "x.onnx", "x.png", "x.safetensors"])
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["x.md", "x.png", "x.safetensors"]
