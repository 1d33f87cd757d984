"""A GPU where there is one: a short training and a session agree with the processor. Skipped where there is none."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from sami_runtime import Session
from sami_runtime.distribution import shipped_models

MODEL = shipped_models()["panda-satesac"]
SMALL = ("exploration.warmup_steps=300", "network.net_arch=[32,32]", "learning.batch_episodes=4")

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def has_provider():
    try:
        Session.load(MODEL, provider="cuda")
    except Exception:  # each build of onnxruntime says it in its own way
        return False
    return True


@needs_gpu
@pytest.mark.parametrize("bf16", ["false", "true"])
def test_a_run_on_the_gpu_learns_and_its_export_agrees_with_torch(tmp_path, bf16):
    run, file = tmp_path / "run", tmp_path / "tiny.onnx"
    options = [f"--set={item}" for item in (*SMALL, f"learning.bf16={bf16}")]
    sami("train", "--env", "panda", "--steps", "600", "--set", "device=cuda", *options, "--out", run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["train/critic_loss"] for line in lines if "train/critic_loss" in line]
    assert losses, "it made gradient steps"
    assert np.isfinite(losses).all()
    sami("export", "--run", run, "--out", file, "--set", "atlas_episodes=0")  # compares with torch, on the processor
    sami("verify", file)


@pytest.mark.skipif(not has_provider(), reason="onnxruntime has no CUDA here")
def test_a_session_on_the_gpu_answers_as_on_the_processor():
    cpu, gpu = Session.load(MODEL), Session.load(MODEL, provider="cuda")
    signals, rng = cpu.contract.observation, np.random.default_rng(0)
    for _ in range(50):
        observation = {signal.name: rng.normal(0, 0.1, signal.size).astype(np.float32) for signal in signals}
        np.testing.assert_allclose(gpu.step(observation).action, cpu.step(observation).action, atol=1e-3)


def sami(*arguments):
    command = [sys.executable, "-c", "from sami_cli.app import main; main()", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
