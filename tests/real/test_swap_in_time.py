"""A loop at 100 Hz misses no tick while another thread loads models and swaps them in the middle of its episode."""

import importlib.util

import pytest

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SafetyStop

BUSY_S = 0.002
"""A machine on which ticks that are left alone are later than this [s] is too busy to tell."""
TRIES = 3
"""A host that is shared with others may stop for longer than a tick takes; the loop itself does not."""


def test_no_tick_is_missed_while_models_are_swapped(request, capsys):
    path = request.config.rootpath / "benchmarks" / "swap_lateness.py"
    spec = importlib.util.spec_from_file_location("swap_lateness", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    quiet = [0.0]
    for _ in range(TRIES):
        try:
            total, quiet, during, _ = benchmark.measure(shipped_models()["panda-satesac"], 100.0, 50)
        except SafetyStop as stop:  # the host stood still for longer than the gate allows
            print(stop)
            continue
        with capsys.disabled():
            print(
                f"\n{total.ticks} ticks, {total.missed} missed; worst {max(quiet):.4f} s, in swaps {max(during):.4f} s"
            )
        assert total.swaps == 50
        if total.missed == 0:
            return
    if max(quiet) > BUSY_S:
        pytest.skip("the machine is too busy to tell: ticks that were left alone were late, too")
    pytest.fail(f"ticks were missed in each of {TRIES} runs")
