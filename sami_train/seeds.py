"""Fixed seeds of everything but training; training itself uses the seed that its user chooses.

Each measurement has its own: with one seed for two, a fit would be judged on the episodes that it was fitted to.
"""

from __future__ import annotations

EVALUATION = 1_000_003
"""Starts of evaluation episodes by which settings are chosen: the development seed."""
FINAL = 1_500_007
"""Starts of the evaluation that is quoted, measured once a release: nothing may be chosen by it."""
EVALUATION_NAMES = {EVALUATION: "development", FINAL: "final"}
"""How an evaluation names its seed in files and tables."""
ATLAS = 2_000_003
"""Starts of the episodes that the in-distribution reference is fitted to and calibrated on."""
ALARMS = 2_000_004
"""Starts of the episodes that judge the in-distribution reference."""
TRAINING_RANGES = 3_000_017
"""Starts, random actions and moves of the episodes that training ranges are measured in."""
LOOKAHEAD = 4_000_037
"""Starts of the episodes that a forward model is fitted to."""
READOUT = 5_000_011
"""Tasks and starts of the episodes that a readout is fitted to and judged on."""
ADAPTATION = 6_000_011
"""Starts of the episodes that measure adaptation."""
RECOVERY = 8_000_009
"""Changes and starts of the episodes that a time to adapt is calibrated on."""
RECOVERY_TEST = 8_500_009
"""Changes and starts of the episodes that judge this calibration."""
REPORT = 7_000_003
"""Starts of the episodes that a report plays and films."""

TASK_RANGES = 4_000_037
"""Tasks drawn from ranges. It equals `LOOKAHEAD`, because another value would change the tasks of trained runs; the
streams still differ, since a task range always adds the hash of its set's name."""
EPISODES = (
    *(EVALUATION, FINAL, ATLAS, ALARMS, TRAINING_RANGES, LOOKAHEAD, READOUT, ADAPTATION, RECOVERY, RECOVERY_TEST),
    REPORT,
)
"""All seeds that start episodes; no two are equal."""
