# One command per intention. `make run` and `make test` each work alone on a fresh clone.

# A Python from 3.10 to 3.13 that is there and runs, unless PYTHON is given; 3.11 first, which has both physics engines.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
# Another folder for another Python: make run PYTHON=python3.13 VENV=.venv/3.13
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test test-real franka-sim debian lint format type bench pictures docs build clean

run: $(VENV)/runtime  ## watch a shipped policy adapt: its success, and a film
	$(BIN)/sami demo

test: $(VENV)/dev  ## the whole test suite, a file at a time on each core
	$(BIN)/python -m pytest -n auto --dist loadfile --durations=15

test-real: $(VENV)/dev $(VENV)/franka-sim/ready  ## what takes minutes: real processes, clocks and signals, a million ticks
	$(BIN)/python -m pytest tests/real --durations=15

franka-sim: $(VENV)/franka-sim/ready  ## a simulated Franka with a cube, behind the robot's own protocol, until Ctrl-C
	$(VENV)/franka-sim/bin/python examples/franka/robot.py $(ROBOT)

debian:  ## what tests need from Debian (compilers and headers, Slurm, a browser, Fast DDS), where it may be installed
	sh tests/debian.sh

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(VENV)/dev
	$(BIN)/mypy

bench: $(VENV)/dev  ## the speeds that docs/results/speed.md quotes
	$(BIN)/sami bench models/panda-satesac.onnx --seconds 11
	$(BIN)/python benchmarks/training_speed.py

pictures: $(VENV)/dev  ## every picture and card of README and docs, from the models and results in the repository
	$(BIN)/python benchmarks/pictures.py $(NAMES)

docs: $(VENV)/dev  ## the documentation as a site in build/docs, with strict links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

build: $(VENV)/dev  ## wheel and sdist, and the runtime's tests against the wheel, from another directory
	sh tests/built_wheel.sh $(abspath $(BIN)/python)

clean:
	rm -rf .venv $(VENV) build dist *.egg-info

$(VENV)/python:
	@test -n "$(PYTHON)" || { echo "No Python from 3.10 to 3.13 found. Install one, or give its path: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

# The runtime, recordings and the simulator; no torch.
$(VENV)/runtime: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) -e '.[cpu,demo]'
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	@touch $@ $(VENV)/runtime

# The simulated Franka's, which needs an older NumPy and MuJoCo than everything else here.
$(VENV)/franka-sim/ready: examples/franka/requirements.txt | $(VENV)/python
	$(PYTHON) -m venv $(VENV)/franka-sim
	$(VENV)/franka-sim/bin/python -m pip install --quiet --disable-pip-version-check -r examples/franka/requirements.txt
	@touch $@
