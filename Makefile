# One command per intention; `make help` lists them. `make run` and `make test` each work alone on a fresh clone.

# PyBullet has wheels for Python 3.10 and 3.11: take the newest of them that is there, unless PYTHON is given.
PYTHON ?= $(shell for p in python3.11 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-real franka-sim debian lint format type bench pictures docs build release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/runtime  ## watch a shipped policy adapt: its success, and a film
	$(BIN)/sami demo

test: .venv/dev  ## the whole test suite, a file at a time on each core
	$(BIN)/python -m pytest -n auto --dist loadfile

test-real: .venv/dev .venv/franka-sim/ready  ## tests that take minutes: real processes, clocks, signals
	$(BIN)/python -m pytest tests/real

franka-sim: .venv/franka-sim/ready  ## a simulated Franka that speaks the robot's protocol
	.venv/franka-sim/bin/python examples/franka/robot.py $(ROBOT)

# For the C++ example, Slurm, pages and Fast DDS. libonnxruntime-dev: from Debian 13 on.
debian:  ## install the Debian packages without which some tests skip
	@test "$$(id -u)" = 0 || become="sudo -n"; \
	for package in nlohmann-json3-dev libonnxruntime-dev slurm-wlm chromium libfastrtps-dev; do \
		dpkg -s $$package >/dev/null 2>&1 && continue; \
		$$become apt-get install -y -qq $$package >/dev/null 2>&1 || \
		{ $$become apt-get update -qq && $$become apt-get install -y -qq $$package; } >/dev/null 2>&1 || \
		echo "without $$package, the tests that need it skip"; \
	done

lint: .venv/dev  ## ruff's findings and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/dev  ## correct what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: .venv/dev  ## mypy
	$(BIN)/mypy

bench: .venv/dev  ## the speeds that docs/results/speed.md quotes
	$(BIN)/sami bench models/panda-satesac.onnx --seconds 11
	$(BIN)/python benchmarks/training_speed.py

pictures: .venv/dev  ## draw README's and docs' pictures and cards; NAMES selects
	$(BIN)/python benchmarks/pictures.py $(NAMES)

docs: .venv/dev  ## the documentation as a site in build/docs, strict links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

build: .venv/dev  ## wheel and sdist in dist/, and checks of what they contain
	rm -rf dist
	$(BIN)/python -m tests.making.built dist
	DIST=dist $(BIN)/python -m pytest -q tests/real/test_built_files.py

# PyBullet has wheels up to Python 3.11: once with them, once without.
release: build  ## the built wheel alone and README's blocks, on two Pythons
	@set -e; for versions in 3.11 "3.13 3.12"; do \
		python=$$(sh tests/find_python.sh $$versions) || { echo "make release needs a Python $$versions, and finds none that runs"; exit 1; }; \
		sh tests/built_wheel.sh "$$python" dist; \
	done
	DIST=dist $(BIN)/python -m pytest -rs tests/real/test_readme.py

clean:  ## remove .venv and all that was built
	rm -rf .venv build dist *.egg-info

.venv/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or 3.11 found (PyBullet has wheels for these). Install one, or give its path: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

# The runtime and what `sami demo` needs; no torch.
.venv/runtime: .venv/python pyproject.toml constraints.txt
	$(PIP) -e '.[cpu,demo]'
	@touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	@touch $@ .venv/runtime

# The simulated Franka's, which needs an older NumPy and MuJoCo than everything else here.
.venv/franka-sim/ready: examples/franka/requirements.txt | .venv/python
	$(PYTHON) -m venv .venv/franka-sim
	.venv/franka-sim/bin/python -m pip install --quiet --disable-pip-version-check -r examples/franka/requirements.txt
	@touch $@
