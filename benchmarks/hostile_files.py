"""Tries mutated files on the complete path of their readers, and counts the outcomes.

    python benchmarks/hostile_files.py --count 100000 --jobs 2 --out results/hostile-files.json
    python benchmarks/hostile_files.py --of others --count 28000 --jobs 2 --out results/hostile-others.json

Models are read, judged, loaded and stepped. `--of others` reads all other files: run folders, checkpoints, kept
results, sweeps, studies, sim-to-real profiles, limits, recordings. Each file follows from its number alone. Child
processes try the files, as in a rehearsal; if a file ends its process, this counts, and a new process tries the next.
A correct outcome is a SamiError, an output, or a file that was read. Findings are other errors, an ended process, a
file that takes seconds, and a reader that opens the canary.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from sami_runtime.errors import NonFiniteError, SamiError
from sami_runtime.model.artifact import judge
from sami_runtime.session.inference import import_onnxruntime
from sami_runtime.session.session import Session

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.making.mutants import CANARY, MUTATIONS, kind_of, mutant

STEPS = 3
SLOW_S = 20.0
"""Processor time from which a file counts as a hang [s], as in a rehearsal: filling `MEMORY` takes some time."""
HANG_S = 60.0
"""Time after which a process without a message is ended [s]."""
MEMORY = 3 << 30
"""Largest memory that a process may map besides its own [bytes]; larger requests fail, as in a rehearsal."""


def through(data: bytes) -> str:
    """Load, check and run a model file as a user would, and return the outcome."""
    try:
        artifact = judge(data, "hostile.onnx")
        artifact.contract.golden_steps()
    except SamiError:
        return "refused before onnxruntime"
    try:
        session = Session(artifact)
    except SamiError:
        return "refused when it was loaded"
    observation = {signal.name: np.full(signal.size, 0.5, np.float32) for signal in session.contract.observation}
    try:
        for step in range(STEPS):
            answer = session.step(observation)
            if not all(np.isfinite(value).all() for value in answer.answers.values()):
                return "FOUND: an answer that is not finite"
            if step == 1:
                session.reset()
    except NonFiniteError:
        return "answer refused: not finite"
    except SamiError:
        return "step refused"
    return "answers"


def attempt_model(number: int) -> tuple[str, str]:
    """Return a model file's kind and outcome; an outcome that begins with FOUND is a bug."""
    kind, data = mutant(number)
    try:
        return kind, through(data)
    except Exception as error:
        return kind, f"FOUND: {type(error).__name__} {str(error)[:80]}"


def source(of: str):
    """Return a function that tries a file by its number, a function that returns the file's kind, and all kinds."""
    if of == "models":
        return attempt_model, kind_of, tuple(MUTATIONS)
    from tests.making import hostile  # imports torch, which files of models do not need

    hostile.base()
    return (lambda number: hostile.attempt(number, Path("hostile"))), hostile.kind_of, tuple(hostile.KINDS)


def work(numbers: range, link, of: str) -> None:
    """Try files one after the other, and report each outcome."""
    import_onnxruntime()
    os.chdir(tempfile.mkdtemp())
    os.mkfifo(CANARY)  # a reader that opens the pipe waits, and counts as a hang
    attempt = source(of)[0]
    with open("/proc/self/statm", "rb") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        start = time.process_time()
        kind, outcome = attempt(number)
        if time.process_time() - start > SLOW_S:
            outcome = "took seconds"
        link.send((number, kind, outcome, _resident()))
    link.send(None)


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def run(numbers: range, on_result, of: str = "models") -> None:
    """Try files in child processes, restarted if one ends; call `on_result` with number, kind, outcome, memory [B]."""
    context, kind = mp.get_context("spawn"), source(of)[1]
    at = numbers.start
    while at < numbers.stop:
        reader, writer = context.Pipe(False)
        process = context.Process(target=work, args=(range(at, numbers.stop, numbers.step), writer, of), daemon=True)
        process.start()
        writer.close()
        try:
            while reader.poll(HANG_S) and (report := reader.recv()) is not None:
                on_result(*report)
                at = report[0] + numbers.step
            if at >= numbers.stop:
                break
            process.kill()
            on_result(at, kind(at), "FOUND: a hang", 0)
        except EOFError:
            process.join()
            on_result(at, kind(at), f"ended its process ({process.exitcode})", 0)
        finally:
            process.kill()
            process.join()
        at += numbers.step


def main() -> None:
    """Try a number of files, and print the outcomes by kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=("models", "others"), default="models")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    counts: dict[str, Counter] = {kind: Counter() for kind in source(arguments.of)[2]}
    results, memory, lock, start = [], [], threading.Lock(), time.perf_counter()

    def on_result(number, kind, outcome, resident):
        with lock:
            counts[kind][outcome] += 1
            memory.append(resident)
            if outcome.startswith(("FOUND", "ended", "took")):
                results.append((number, kind, outcome))
                print(f"{number}: {kind}: {outcome}", file=sys.stderr, flush=True)

    last = arguments.first + arguments.count
    shares = [range(arguments.first + job, last, arguments.jobs) for job in range(arguments.jobs)]
    threads = [threading.Thread(target=run, args=(share, on_result, arguments.of)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(counts.values(), Counter())
    for kind, outcomes in counts.items():
        print(f"{kind:22} " + ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))
    early, late = (max(part, default=0) / 1e6 for part in (memory[: len(memory) // 10], memory[-len(memory) // 10 :]))
    print(f"{'all':22} " + ", ".join(f"{outcome} {count}" for outcome, count in sorted(total.items())))
    print(f"{sum(total.values())} files in {time.perf_counter() - start:.0f} s")
    print(f"most memory of a process: {early:.0f} MB in the first tenth, {late:.0f} MB in the last")
    if arguments.out:
        document = {
            "files": sum(total.values()),
            "first": arguments.first,
            "total": total,
            "kinds": counts,
            "found": results,
        }
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(any(outcome.startswith("FOUND") for outcome in total))


if __name__ == "__main__":
    main()
