"""A watched robot comes to rest in time, however its loop fails; in full it is `benchmarks/watchdog_kills.py`."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS, TIMES = 8, 2


def test_loops_fail_in_every_way_and_each_robot_rests_within_the_given_time_and_one_period():
    command = [
        sys.executable,
        "benchmarks/watchdog_kills.py",
        "--kills",
        str(KINDS * TIMES),
        "--json",
        "--port",
        "47041",
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=ROOT)
    document = json.loads(process.stdout)
    print(process.stdout)
    assert len({kill["kind"] for kill in document["kills"]}) == KINDS
    assert [kill for kill in document["kills"] if kill["faults"] or kill["late_s"] > document["allowed_s"]] == []
    assert process.returncode == 0
