"""What a step of a policy costs: `Session.step`, bare onnxruntime, and torch, side by side.

    python benchmarks/session_step.py [--run RUN | --model FILE] [--steps N] [--paced-steps N] [--json]

Without `--run` or `--model`, a freshly initialised policy of the preset fast-cpu is exported: time does not
depend on the weights. What is timed, for one episode and on one thread each:

    bare onnxruntime  `InferenceSession.run` on the same file, its state fed back, nothing checked
    Session.step      the same, with names, shapes and numbers checked, as a robot's loop calls it
    torch             the policy as training holds it, one deterministic step, in eager mode

Before the timing the three must agree on 100 steps. They take turns in blocks of 250 steps, in another order
each round, so that whatever else the machine does falls on all of them alike; state is reset before each
block, outside of the timing. Observations are uniform random numbers in [-1, 1], prepared beforehand. Back to
back, a step follows the one before at once; paced, at 100 Hz, when caches have gone cold and the core has
slept. The torch line is left out where torch is not installed; then a model file is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

BLOCK = 250
OBSERVATIONS = 1000
PERIOD = 0.01
"""Time between two paced steps [s]."""
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
BARE, SESSION, TORCH = "bare onnxruntime", "Session.step", "torch"


class Candidate:
    """One way to step the policy.

    Args:
        step: takes the number of an observation, returns the action (A,).
        reset: begins an episode.
    """

    def __init__(self, step: Callable[[int], np.ndarray], reset: Callable[[], None]) -> None:
        self.step, self.reset = step, reset


def bare(path: Path, observations: dict[str, np.ndarray]) -> Candidate:
    """Onnxruntime alone: outputs become the next inputs, and nothing is looked at."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    states = [(i, f"{name[:-4]}.in") for i, name in enumerate(names) if name.startswith("state.")]
    shapes = {value.name: [1, *value.shape[1:]] for value in session.get_inputs()}
    carried = [name for name in shapes if not name.startswith("observation.")]
    feeds = [
        {f"observation.{name}": value[i : i + 1] for name, value in observations.items()} for i in range(OBSERVATIONS)
    ]
    memory: dict[str, np.ndarray] = {}

    def reset() -> None:
        memory.update({name: np.zeros(shapes[name], np.float32) for name in carried})

    def step(i: int) -> np.ndarray:
        outputs = session.run(names, {**feeds[i], **memory})
        memory["previous_action"] = outputs[0]
        for index, name in states:
            memory[name] = outputs[index]
        return outputs[0][0]

    return Candidate(step, reset)


def checked(path: Path, observations: dict[str, np.ndarray]) -> Candidate:
    """The runtime's session."""
    from sami_runtime.session import Session

    session = Session.load(path)
    feeds = [{name: value[i] for name, value in observations.items()} for i in range(OBSERVATIONS)]
    return Candidate(lambda i: session.step(feeds[i]).action, session.reset)


def torch_and_model(run: Path | None, folder: Path) -> tuple[object, Path]:
    """The policy of a run, or a fresh one, in torch, and the file that it was exported to."""
    import torch

    from sami_train.export import TorchSession, export

    torch.set_num_threads(1)
    if run is not None:
        from sami_train.run_folder import RunFolder
        from sami_train.train import load_agent

        agent = load_agent(RunFolder.open(run))
    else:
        from sami_train.agent import ContextSAC
        from sami_train.config import resolve
        from sami_train.train import make_env

        config = resolve("fast-cpu", {"learning.buffer_episodes": 1})
        agent = ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
    path = folder / "benchmark.onnx"
    export(agent, path, {"method": "benchmark"}, None)
    return TorchSession(agent.policy), path


def eager(session: object, observations: dict[str, np.ndarray]) -> Candidate:
    """The policy in torch, on the flat observation that training gives it."""
    from sami_train.envs.catalog import environment

    spec = environment("panda")
    flat = np.zeros((OBSERVATIONS, spec.observation_size), np.float32)
    for item in spec.signals:
        flat[:, item.indices] = observations[item.signal.name]
    return Candidate(lambda i: session.step(flat[i])[0], session.reset)  # type: ignore[attr-defined]


def require_equal(candidates: dict[str, Candidate]) -> float:
    """The largest difference between any two of them on 100 steps; exits where it is more than 1e-4."""
    actions = []
    for candidate in candidates.values():
        candidate.reset()
        actions.append(np.array([candidate.step(i) for i in range(100)]))
    worst = float(np.ptp(np.array(actions), axis=0).max())
    if not worst <= 1e-4:
        raise SystemExit(f"they do not run the same policy: actions differ by {worst:.1e}")
    return worst


def measure(candidates: dict[str, Candidate], steps: int, period: float | None) -> dict[str, np.ndarray]:
    """Times of each candidate's steps [us], in turns; the first block of each is not counted."""
    block = BLOCK if period is None else 100
    rounds = max(1, -(-steps // block))
    times: dict[str, list[np.ndarray]] = {name: [] for name in candidates}
    rng = np.random.default_rng(0)
    for number in range(-1, rounds):
        for name in rng.permutation(list(candidates)):
            candidate = candidates[name]
            candidate.reset()
            taken = np.empty(block)
            deadline = time.perf_counter()
            for i in range(block):
                if period is not None:
                    deadline += period
                    time.sleep(max(0.0, deadline - time.perf_counter()))
                start = time.perf_counter_ns()
                candidate.step(i)
                taken[i] = time.perf_counter_ns() - start
            if number >= 0:
                times[name].append(taken / 1000)
    return {name: np.concatenate(blocks) for name, blocks in times.items()}


def summary(times: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Percentiles [us] of each candidate, and their ratios to bare onnxruntime's."""
    # A percentile that hardly one step lies beyond says nothing.
    shown = {p: q for p, q in PERCENTILES.items() if len(times[BARE]) * (100 - q) >= 100}
    found = {name: {p: float(np.percentile(t, q)) for p, q in shown.items()} for name, t in times.items()}
    for values in found.values():
        values |= {f"{p} ratio": values[p] / found[BARE][p] for p in shown}
    return found


def table(title: str, steps: int, found: dict[str, dict[str, float]]) -> str:
    """The percentiles as text."""
    shown = [p for p in PERCENTILES if p in found[BARE]]
    head = "".join(f"{p + ' us':>11}{'ratio':>7}" for p in shown)
    lines = [f"{title}, {steps} steps each", f"{'':<18}{head}"]
    for name, values in found.items():
        cells = "".join(f"{values[p]:>11.1f}{values[p + ' ratio']:>7.2f}" for p in shown)
        lines.append(f"{name:<18}{cells}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, help="run folder whose policy is stepped")
    parser.add_argument("--model", type=Path, help="model file that is stepped, without torch")
    parser.add_argument("--steps", type=int, default=20_000, help="back-to-back steps of each (20000)")
    parser.add_argument("--paced-steps", type=int, default=1000, help="steps at 100 Hz of each (1000)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    if arguments.run and arguments.model:
        parser.error("give --run or --model, not both")

    from sami_runtime.artifact import read_artifact
    from sami_runtime.errors import SamiError

    notes = []
    with tempfile.TemporaryDirectory() as folder:
        session, path = None, arguments.model
        try:
            if path is None:
                session, path = torch_and_model(arguments.run, Path(folder))
            else:
                notes.append("torch is left out: --model gives no torch policy; --run does")
            signals = read_artifact(path).contract.observation
        except ModuleNotFoundError as error:
            parser.error(f"{error.name} is not installed, so no policy can be made; give a model file: --model FILE")
        except SamiError as error:
            parser.error(str(error))
        rng = np.random.default_rng(0)
        seen = {s.name: rng.uniform(-1, 1, (OBSERVATIONS, s.size)).astype(np.float32) for s in signals}
        candidates = {BARE: bare(path, seen), SESSION: checked(path, seen)}
        if session is not None:
            candidates[TORCH] = eager(session, seen)
        difference = require_equal(candidates)
        plans = [("back to back", arguments.steps, None), ("paced at 100 Hz", arguments.paced_steps, PERIOD)]
        measured = {
            title: {"steps": len(times[BARE]), "us": summary(times)}
            for title, steps, period in plans
            if steps > 0
            for times in [measure(candidates, steps, period)]
        }
    processor = platform.processor() or platform.machine()
    machine = f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if arguments.json:
        result = {"machine": machine, "largest_difference": difference, "notes": notes, "measured": measured}
        print(json.dumps(result, indent=2))
        return
    print("\n".join([machine, f"largest difference of an action: {difference:.1e}", *notes]))
    for title, values in measured.items():
        print("\n" + table(title, values["steps"], values["us"]))


if __name__ == "__main__":
    main()
