"""The workflows and hooks agree with the project."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_uses_exact_versions_and_targets_that_make_has(path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[docs]'")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    targets = set(re.findall(r"(?m)^([a-z-]+):", text("Makefile")))
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 90, name
        names = set(job.get("strategy", {}).get("matrix", {}).get("target", []))
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step.get("uses", "a/b@v0.0.0")), step
            names |= set(re.findall(r"^make ([a-z-]+)$", step.get("run", "")))
        assert names <= targets, name


def test_the_runtime_is_tested_on_every_python_that_the_project_names():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[docs]'")
    matrix = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["runtime"]["strategy"]["matrix"]["python"]
    assert matrix == re.findall(r"Python :: (3\.\d+)\"", text("pyproject.toml"))


def test_hooks_before_a_commit_run_the_ruff_of_make_lint():
    hooks = set(re.findall(r"ruff==([\d.]+)", text(".pre-commit-config.yaml")))
    assert hooks == set(re.findall(r"(?m)^ruff==([\d.]+)", text("constraints.txt")))


def test_make_help_lists_every_target_within_80_columns():
    makefile = text("Makefile")
    targets = set(re.search(r"(?m)^\.PHONY: (.*)$", makefile)[1].split())
    described = dict(re.findall(r"(?m)^([a-z-]+):.*?## (.*)$", makefile))
    assert set(described) == targets
    assert max(len(f"make {'':11} {line}") for line in described.values()) <= 80
