"""`sami atlas`, `sami adapt`, and what `sami run` tells of the context, as a user meets them."""

import dataclasses
import io
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_cli.commands.studies import adapt
from sami_cli.episodes import LiveLine, corrected

from sami_runtime import Observation, Telemetry, read_artifact
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs import ENVIRONMENTS, catalog
from sami_train.envs.make import make
from sami_train.export import graph
from sami_train.export.atlas import attach
from sami_train.export.export import compose_model
from sami_train.export.export_run import with_measured
from sami_train.export.model_file import write
from sami_train.studies.contexts.adaptation import Mean

SHIPPED = Path(__file__).parents[2] / "models" / "panda-satesac.onnx"
SMALL = {
    "network.net_arch": [16],
    "network.hidden_size": 8,
    "learning.hindsight": 0.0,
    "learning.clip_targets": False,
    "collection.end_on_fall": False,
}


EPISODE_STEPS = 80


@pytest.fixture(scope="module")
def cheetah(tmp_path_factory):
    """A half-cheetah's model of an untrained agent, exported with an atlas of short episodes, as all here are."""
    path = tmp_path_factory.mktemp("cheetah") / "cheetah.onnx"
    agent = ContextSAC(
        "ContextPolicy", make(ENVIRONMENTS["half-cheetah"]), resolve("fast-cpu", SMALL | {"env": "half-cheetah"})
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "CLOSED_LOOP_STEPS", 1)
        for name in ("half-cheetah", "crippled-half-cheetah"):
            spec = dataclasses.replace(ENVIRONMENTS[name], episode_steps=EPISODE_STEPS)
            patch.setitem(catalog.of_commands, name, spec)
            patch.setattr(gymnasium.registry[spec.id], "max_episode_steps", EPISODE_STEPS)
        artifact = compose_model(agent, path, {"method": "untrained", "env": "half-cheetah"}, None)
        write(with_measured(artifact, catalog.of_commands["half-cheetah"], atlas_episodes=4))
        yield path


@pytest.fixture
def plain(tmp_path):
    """The shipped model without its atlas."""
    path = Path(shutil.copy(SHIPPED, tmp_path / "plain.onnx"))
    attach(path, None)
    return path


def test_an_export_carries_an_atlas_of_every_training_task(sami, cheetah):
    atlas = read_artifact(cheetah).contract.atlas
    assert len(atlas.tasks) == len(ENVIRONMENTS["half-cheetah"].tasks.sets["training"])
    assert (atlas.episodes, atlas.held_out) == (2 * len(atlas.tasks), 2 * len(atlas.tasks))
    assert f"atlas: {len(atlas.tasks)} tasks, window 5, from step 9 on" in sami("inspect", cheetah).out
    assert sami("verify", cheetah).code == 0


def test_a_joint_that_dies_is_measured_through_the_file(sami, cheetah):
    result = sami(
        *("adapt", "--env", "crippled-half-cheetah", "--model", cheetah, "--episodes", 2, "--out", "told"),
        *("--change", "crippled=none:3@20", "--change", "mass=1:1,damping=1@15"),
    )
    assert (result.code, result.err) == (0, "running changed episodes ...\n")
    assert "2 of 2 episodes were not over before the change" in result.prose
    document = json.loads(Path("told/adaptation.json").read_text())
    change, control = document["changes"]
    assert change["change"] == "mass=1,damping=1,crippled=none:3@20"
    variants = ["live", "frozen", "reset", "from the start", "constant", "unchanged"]
    assert [row["variant"] for row in change["rows"]] == variants
    returns = {row["variant"]: row["ret"]["value"] for row in control["rows"]}
    assert returns["live"] == returns["from the start"] == returns["unchanged"] != returns["reset"]
    assert change["rows"][0]["success"] is None
    assert (document["env"], document["model"]) == ("crippled-half-cheetah", cheetah.name)
    assert (document["episodes"], document["seed"]) == (2, 6_000_011)
    assert document["weights_sha256"] == read_artifact(cheetah).contract.weights_sha256
    assert Path("told/adaptation.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["adaptation.json", "adaptation.png"])
def test_an_earlier_adaptation_is_replaced_only_with_force(sami, cheetah, name):
    Path("told").mkdir()
    Path("told", name).write_text("mine")
    arguments = ("adapt", "--model", cheetah, "--change", "mass=1:2,damping=1@3", "--episodes", 1, "--out", "told")
    refused = sami(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert f"told/{name} exists; choose another name, or replace it with --force." in refused.err
    assert [path.read_text() for path in Path("told").iterdir()] == ["mine"]
    assert sami(*arguments, "--force").code == 0
    assert json.loads(Path("told/adaptation.json").read_text())["env"] == "half-cheetah"  # the model's own
    assert Path("told/adaptation.png").read_bytes().startswith(b"\x89PNG")


def test_an_interruption_before_the_picture_leaves_nothing_that_the_same_command_refuses(sami, cheetah, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    words = ("adapt", "--model", cheetah, "--episodes", 1, "--change", "mass=1:2,damping=1@3", "--out", "out")
    with monkeypatch.context() as patch:
        patch.setattr("sami_train.studies.charts.contexts.draw_adaptations", interrupt)
        assert sami(*words).code == 130
    assert list(Path("out").iterdir()) == []
    assert sami(*words).code == 0


def test_an_atlas_is_added_once_and_counted_on_fresh_episodes(sami, cheetah, tmp_path):
    path = Path(shutil.copy(cheetah, tmp_path / "copy.onnx"))
    refused = sami("atlas", path)
    assert (refused.code, "replace it with --force" in refused.err) == (1, True)
    few = sami("atlas", path, "--force", "--set", "episodes=1")
    assert (few.code, "at least 4 are needed" in few.err) == (1, True)
    assert path.read_bytes() == cheetah.read_bytes()


def test_runs_tell_what_the_context_told(sami, plain):
    [row] = [json.loads(line) for line in sami("run", "--model", SHIPPED, "--episodes", 1, "--json").out.splitlines()]
    assert set(row["telemetry"]) == set(Telemetry(read_artifact(SHIPPED).contract).summary())
    assert row["telemetry"]["phase"] in ("identifying", "settled", "re-adapting")
    result = sami("run", "--model", SHIPPED, "--episodes", 1)
    assert "phase       score   context moves" in result.out
    assert row["telemetry"]["phase"] in result.out
    old = sami("run", "--model", plain, "--episodes", 1)
    assert (old.code, "phase" in old.out, "success  context moves" in old.out) == (0, False, True)
    [bare] = [json.loads(line) for line in sami("run", "--model", plain, "--episodes", 1, "--json").out.splitlines()]
    assert {name for name, value in bare["telemetry"].items() if value} == {"speed"}
    assert (bare["context"], bare["success"], bare["steps"]) == (row["context"], row["success"], row["steps"])
    assert "atlas: none; `sami atlas` adds one" in sami("inspect", plain).out


def test_a_terminal_shows_the_last_reading_and_anything_else_shows_nothing():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 1

    contract = read_artifact(SHIPPED).contract
    telemetry, screen, pipe = Telemetry(contract), Terminal(), io.StringIO()
    for _ in range(contract.atlas.step + 1):
        telemetry.update(contract.golden_steps().answers["context"][0] + 100.0)
    tick = SimpleNamespace(observation=None, extra={})
    line = LiveLine(telemetry, screen)
    line(tick)
    line(tick)  # too soon
    line.clear()
    LiveLine(telemetry, pipe)(tick)
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines[0] == lines[2] == ""
    assert lines[1].startswith(f"step {contract.atlas.step:>3}  context moves  0.00  identifying  score ")
    assert "OUT OF DISTRIBUTION" in lines[1]
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--change", "mass=1:-2,friction=1@5", "--model", SHIPPED),
            "mass is -2.0; it must be a number greater than 0",
        ),
        (("--change", "mass=1:2,friction=1@60", "--model", SHIPPED), "give one from 1 to 49"),
        (("--change", "mass=2", "--model", SHIPPED), "is no change of dynamics; write FEATURE=FROM:TO"),
        (
            ("--change", "mass=1:2,friction=1@5", "--model", SHIPPED, "--out", "taken"),
            "taken is no folder.",
        ),
        (("--change", "mass=1:2,friction=1@5", "--model", "none.onnx"), "none.onnx cannot be read: No such file"),
        (("--change", "mass=1:2@5", "--env", "hopper", "--model", SHIPPED), "does not have the signals that it reads"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_before_anything_runs(sami, contents, tmp_path, arguments, message):
    (tmp_path / "here" / "taken").write_text("mine")
    before = contents(tmp_path)
    result = sami("adapt", *arguments)
    assert (result.code, result.out) == (1, "")
    assert message in result.err
    assert contents(tmp_path) == before


def test_a_mean_that_rounds_to_zero_has_no_minus_sign():
    assert adapt._mean(Mean(-0.04, 0.12), 1) == "0.0 ±0.1"
    assert adapt._mean(Mean(-0.06, None), 1) == "-0.1"


def test_the_live_line_tells_how_far_the_estimated_present_is_from_what_arrived():
    observation = Observation({"cube_position": np.zeros(3, np.float32), "gripper_width": np.ones(1, np.float32)}, 0.0)
    tick = SimpleNamespace(observation=observation, extra={"present_cube_position": np.float32([0.03, 0.0, 0.04])})
    assert corrected(tick) == "present off by cube_position 0.05"
    assert corrected(SimpleNamespace(observation=observation, extra={})) == ""
