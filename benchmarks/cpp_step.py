"""Measures the time of a policy's step in C++, beside ONNX Runtime's bare call and `Session.step`.

    python benchmarks/cpp_step.py [--flags "-O2 -march=native"] [--rounds 20] [models/panda-satesac.onnx]

All three take turns in one run, on random observations. The C++ program also steps at 1 kHz by an absolute clock.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sami_runtime.checks.bench import SESSION, candidates, measure
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.c_export.export import cpp_sources

PROGRAM = """
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
int main(int, char** arguments) {
  using Clock = std::chrono::steady_clock;
  static POLICY::Session session;
  POLICY::Observation observation;
  const int steps = std::atoi(arguments[1]);
  const auto period = std::chrono::microseconds(std::atoi(arguments[2]));
  std::vector<double> times;
  auto due = Clock::now();
  for (int step = 0; step < steps; ++step) {
    for (float& value : observation.values) value = 0.001F * static_cast<float>(std::rand() % 1000);
    if (period.count() > 0) std::this_thread::sleep_until(due += period);
    const auto began = Clock::now();
    if (session.step(observation)) return 1;
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%g %g\\n", times[times.size() / 2], times[times.size() * 999 / 1000]);
}
"""


def main():
    """Print a line for each candidate, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=Path("models/panda-satesac.onnx"))
    parser.add_argument("--flags", default="-O2 -march=native")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    artifact = read_artifact(options.model)
    cases = candidates(artifact)
    pair = [cases[0], next(candidate for candidate in cases if candidate.name == SESSION)]
    with tempfile.TemporaryDirectory() as name:
        folder, texts = Path(name), cpp_sources(artifact)
        for file, text in {**texts, "step.cpp": PROGRAM}.items():
            (folder / file).write_text(text, encoding="utf-8")
        header, source = texts
        flags = ["-std=c++17", "-ffp-contract=off", *options.flags.split()]
        policy = [f"-DPOLICY={Path(header).stem}", "-include", folder / header]
        program = folder / "step"
        command = ["c++", *flags, *policy, folder / "step.cpp", folder / source, "-o", program, "-pthread"]
        subprocess.run([*map(str, command)], check=True)

        def stepped(*arguments):
            answer = subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True)
            return [float(number) for number in answer.stdout.split()]

        rows = []
        for _ in range(options.rounds):
            times = measure(pair, 0.0)
            rows.append([*(np.median(times[candidate.name]) for candidate in pair), stepped("250", "0")[0]])
        bare, session, cpp = np.median(rows, axis=0)
        ratio = np.median([row[2] / row[0] for row in rows])
        at_rate = stepped("10000", "1000")
    print(f"{artifact.path.stem}, {options.flags}: bare {bare:.1f} us, Session.step {session:.1f} us, C++ {cpp:.1f} us")
    print(f"C++ / bare, p50: {ratio:.2f}; C++ at 1 kHz: p50 {at_rate[0]:.1f} us, p99.9 {at_rate[1]:.1f} us")


if __name__ == "__main__":
    main()
