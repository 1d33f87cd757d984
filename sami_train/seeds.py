"""Seeds of the streams of chance that are the same in every run; training itself uses the seed that its user chooses.

Two streams of one seed would begin their episodes alike, so that a measurement would judge what it was fitted to.
"""

from __future__ import annotations

EVALUATION = 1_000_003
"""Starts of evaluation episodes by which settings are chosen: the development seed."""
FINAL = 1_500_007
"""Starts of the evaluation that is quoted, measured once a release: nothing may be chosen by it."""
EVALUATION_NAMES = {EVALUATION: "development", FINAL: "final"}
"""What an evaluation calls its seed."""
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
"""The same of those that judge it."""
REPORT = 7_000_003
"""Starts of the episodes that a report plays and films."""

TASK_RANGES = 4_000_037
"""Tasks drawn from ranges. Always used beside the hash of a set's name, which makes other streams of it than those of
episodes; it has the value of `LOOKAHEAD` because another one would change the tasks of trained runs."""
EPISODES = (
    *(EVALUATION, FINAL, ATLAS, ALARMS, TRAINING_RANGES, LOOKAHEAD, READOUT, ADAPTATION, RECOVERY, RECOVERY_TEST),
    REPORT,
)
"""Of streams that begin episodes: no two are equal."""
