"""Measures the largest difference of the shipped policies' C++ code from ONNX Runtime on their golden steps.

    python benchmarks/cpp_equality.py [--flags "-O1 -march=native"] [MODEL.onnx ...]

One row a file: compiled, replayed by `examples/cpp/replay.cpp`, compared with a `Session` on this machine. 0 is the
same bits, for actions, contexts and extra outputs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from sami_runtime.distribution import shipped_models
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.c_export.export import cpp_sources
from sami_runtime.session.session import Session

REPLAY = Path(__file__).resolve().parents[1] / "examples" / "cpp" / "replay.cpp"


def session_table(model: Path) -> str:
    """Return the golden steps in the format of `replay`, with a session's outputs instead of torch's."""
    session = Session.load(model)
    contract, golden = session.contract, session.contract.golden_steps()
    looks_ahead = contract.lookahead is not None
    lines = ["columns"]
    for step in range(len(golden)):
        if step in golden.resets:
            session.reset()
        observation = {name: values[step] for name, values in golden.observation.items()}
        ages, holds = [], []
        if looks_ahead:
            ages, holds = golden.age[step].tolist(), [float(golden.holds[step, 0])]
            session.elapse(int(golden.holds[step, 0]))
            answer = session.step(observation, dict(zip(observation, ages, strict=False)))
        else:
            answer = session.step(observation)
        executed = golden.executed[step]
        session.executed(executed)
        parts = [*observation.values(), executed, answer.action, answer.context, *answer.extra.values()]
        row = [float(step in golden.resets), *(number for part in parts for number in part.tolist()), *ages, *holds]
        lines.append(",".join(f"{number:.9g}" for number in row))
    return "\n".join(lines) + "\n"


def largest_difference(model: Path, flags: str, compiler: str = "c++") -> tuple[int, float]:
    """Compile a policy, replay its golden steps, and return their number and the largest difference."""
    with tempfile.TemporaryDirectory() as name:
        folder, texts = Path(name), cpp_sources(read_artifact(model))
        for file, text in {**texts, "session.csv": session_table(model)}.items():
            (folder / file).write_text(text, encoding="utf-8")
        header, source = texts
        command = [compiler, "-std=c++17", "-ffp-contract=off", *flags.split(), f"-DPOLICY={Path(header).stem}"]
        command += ["-include", folder / header, REPLAY, folder / source, "-o", folder / "replay"]
        subprocess.run([*map(str, command)], check=True)
        process = subprocess.run(
            [str(folder / "replay"), str(folder / "session.csv"), "1"], check=True, capture_output=True, text=True
        )
    steps, difference = re.match(r"(\d+) steps, largest difference (\S+) ", process.stdout).groups()
    return int(steps), float(difference)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, default=[*shipped_models().values()])
    parser.add_argument("--flags", default="-O1 -march=native")
    options = parser.parse_args()
    print(f"{'model':<32}{'steps':>6}{'largest difference':>20}   compiled with {options.flags}")
    equal = 0
    for model in options.models:
        steps, difference = largest_difference(model, options.flags)
        equal += difference == 0.0
        print(f"{model.stem:<32}{steps:>6}{difference:>20.1e}", flush=True)
    print(f"{equal} of {len(options.models)} give the same bits")


if __name__ == "__main__":
    main()
