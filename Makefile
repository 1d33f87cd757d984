# `make help` lists the commands. `make run` and `make test` each work on a fresh clone.

# An installed Python from 3.10 to 3.14, unless PYTHON is given; 3.11 first, because it has both physics engines.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$p && break; done)
# Use another folder for another Python: make run PYTHON=python3.13 VENV=.venv/3.13
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-real test-lerobot scoreboard franka-sim unitree-sim debian lint format type bench pictures docs build release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/runtime  ## watch a shipped policy adapt: its success, and a film
	$(BIN)/sami demo

# Compile first, because the tests start hundreds of processes.
test: $(VENV)/dev  ## the whole test suite, a file at a time on each core
	$(BIN)/python -m compileall -q sami_runtime sami_train cli
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=15

test-real: $(VENV)/dev $(VENV)/franka-sim/ready unitree-sim-if-possible  ## tests that take minutes: real processes, clocks, signals
	$(BIN)/python -m compileall -q sami_runtime sami_train cli
	$(BIN)/python -m pytest tests/real -m "not alone" -n 2 --dist loadfile --no-loadscope-reorder --durations=15; \
	beside=$$?; $(BIN)/python -m pytest tests/real -m alone --durations=15 && exit $$beside

test-lerobot: $(VENV)/dev $(VENV)/lerobot/ready  ## drive a simulated arm of LeRobot in its own environment
	SAMI_LEROBOT=$(VENV)/lerobot/bin $(BIN)/python -m pytest tests/real/test_lerobot.py --durations=5

scoreboard: $(VENV)/scoreboard/ready  ## the environment of the outside scoreboard, and its tables
	$(VENV)/scoreboard/bin/python -m benchmarks.scoreboard table

franka-sim: $(VENV)/franka-sim/ready  ## a simulated Franka that speaks the robot's protocol
	$(VENV)/franka-sim/bin/python examples/franka/robot.py $(ROBOT)

unitree-sim: $(VENV)/unitree-sim/ready  ## a simulated Go2 that speaks Unitree's low-level protocol
	$(VENV)/unitree-sim/bin/python examples/unitree/robot.py $(ROBOT)

debian:  ## install the Debian packages without which some tests skip
	sh tests/debian.sh

lint: $(VENV)/dev  ## ruff's findings and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/dev  ## apply ruff's fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(VENV)/dev  ## mypy
	$(BIN)/mypy

bench: $(VENV)/dev  ## the speeds that docs/results/speed.md quotes
	$(BIN)/sami bench models/panda-satesac.onnx --seconds 11
	$(BIN)/python benchmarks/training_speed.py

pictures: $(VENV)/dev  ## draw README's and docs' pictures and cards; NAMES selects
	$(BIN)/python benchmarks/pictures.py $(NAMES)

docs: $(VENV)/dev  ## the documentation as a site in build/docs, strict links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

build: $(VENV)/dev  ## wheel and sdist in dist/, and checks of their contents
	rm -rf dist
	$(BIN)/python -m tests.making.built dist
	DIST=dist $(BIN)/python -m pytest -q tests/real/test_built_files.py

# PyBullet has wheels up to Python 3.11: one run with it, one without.
release: build  ## the built wheel alone and README's blocks, on two Pythons
	@set -e; for versions in 3.11 "3.13 3.12"; do \
		python=$$(sh tests/find_python.sh $$versions) || { echo "make release needs a Python $$versions, and finds none that runs"; exit 1; }; \
		sh tests/built_wheel.sh "$$python" dist; \
	done
	DIST=dist $(BIN)/python -m pytest -rs tests/real/test_readme.py

clean:  ## remove .venv and all build outputs
	rm -rf .venv $(VENV) build dist *.egg-info

$(VENV)/python:
	@test -n "$(PYTHON)" || { echo "No Python from 3.10 to 3.14 found. Install one, or give its path: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

# The runtime and the dependencies of `sami demo`; no torch.
$(VENV)/runtime: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) -e '.[cpu,demo]'
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	@touch $@ $(VENV)/runtime

# Environment of the simulated Franka, which needs an older NumPy and MuJoCo than the project.
$(VENV)/franka-sim/ready: examples/franka/requirements.txt | $(VENV)/python
	$(PYTHON) -m venv $(VENV)/franka-sim
	$(VENV)/franka-sim/bin/python -m pip install --quiet --disable-pip-version-check -r examples/franka/requirements.txt
	@touch $@

# Environment of the outside scoreboard: dm_control needs an older MuJoCo, rliable an older arch. The checkout is used.
$(VENV)/scoreboard/ready: benchmarks/scoreboard/requirements.txt | $(VENV)/python
	$(PYTHON) -m venv $(VENV)/scoreboard
	$(VENV)/scoreboard/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/scoreboard/requirements.txt
	@touch $@

# Environment of the simulated Go2: cyclonedds 0.10, the robot's version, has no wheels for later Pythons.
UNITREE_PYTHON ?= $(shell sh tests/find_python.sh 3.10 3.9)
$(VENV)/unitree-sim/ready: examples/unitree/requirements.txt | $(VENV)/python
	@test -n "$(UNITREE_PYTHON)" || { echo "The simulated Go2 needs Python 3.10 or 3.9, and none was found. Give its path: make unitree-sim UNITREE_PYTHON=/path/to/python3.10"; exit 1; }
	$(UNITREE_PYTHON) -m venv $(VENV)/unitree-sim
	$(VENV)/unitree-sim/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r examples/unitree/requirements.txt
	@touch $@

# Without such a Python, the tests of the simulated Go2 skip.
unitree-sim-if-possible:
	@test -z "$(UNITREE_PYTHON)" || $(MAKE) $(VENV)/unitree-sim/ready

# LeRobot needs an older torch. The runtime is installed with it, without constraints.txt, which pins torch 2.13.
LEROBOT_PYTHON ?= $(shell sh tests/find_python.sh 3.12 3.13)
$(VENV)/lerobot/ready: examples/lerobot/requirements.txt pyproject.toml | $(VENV)/python
	@test -n "$(LEROBOT_PYTHON)" || { echo "LeRobot needs Python 3.12 or 3.13, and none was found. Give its path: make test-lerobot LEROBOT_PYTHON=/path/to/python3.12"; exit 1; }
	$(LEROBOT_PYTHON) -m venv $(VENV)/lerobot
	$(VENV)/lerobot/bin/python -m pip install --quiet --disable-pip-version-check -r examples/lerobot/requirements.txt -e '.[cpu,record]'
	@touch $@
