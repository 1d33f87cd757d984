"""Runs the scoreboard: `python -m benchmarks.scoreboard run|all|table|curves`; see docs/results/scoreboard.md."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before any library is imported


def _run() -> None:
    from benchmarks.scoreboard.run import main

    main()


_run()
