"""A fitted gap as a file that people read and correct: TOML, with what told each number and what nothing told."""

from __future__ import annotations

import json

from sami_train.studies.fit_gap.fit import FittedGap, FittedNumber


def document_of(fitted: FittedGap) -> str:
    """Return the text of a gap profile; `GapProfile.load` reads it back."""
    episodes = f"{fitted.episodes} episode{'s' * (fitted.episodes != 1)}"
    lines = [
        f"# The gap that sami fit-gap found in {', '.join(fitted.names)}: {episodes}.",
        "# A range [low, high] is as wide as its 95 % interval, or as the episodes differ; each episode draws its own.",
        *(f"# {line}" for line in (*summary_lines(fitted), *fitted.notes)),
        "",
    ]
    values = fitted.profile.to_dict()
    for key, value in values.items():
        fitted_here = [one for one in fitted.estimates if one.key == key]
        lines += [f"# {_comment(one)}" for one in fitted_here]
        lines += [f"{key} = {_toml(value)}", ""]
    lines += [
        "# What the log does not tell, and what is left out here:",
        *(f"# - {sentence}" for sentence in fitted.untold),
    ]
    return "\n".join(lines) + "\n"


def summary_lines(fitted: FittedGap) -> list[str]:
    """Return sentences about the episodes that were held out."""
    checks = fitted.checks
    if not checks:
        return ["Not validated: there are too few episodes to hold one out."]
    return [
        f"Held out: {checks['episodes']} episodes. What was fitted to the others (a delay of {checks['delay_periods']} "
        f"periods) explains {checks['motion_explained']:.2f} of their motions, and no gap "
        f"{checks['motion_explained_without_gap']:.2f}."
    ]


def _comment(one: FittedNumber) -> str:
    low, value, high = (f"{end:.3g}" for end in one.estimate)
    return f"{one.signal or one.key}: {value} {one.unit} ({low} to {high}), by {one.by}"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(item)}' for name, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(value)
