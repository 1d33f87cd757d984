# One command per intention. `make run` and `make test` each work alone on a fresh clone.

# PyBullet has wheels for Python 3.10 and 3.11: take the newest of them that is there, unless PYTHON is given.
PYTHON ?= $(shell for p in python3.11 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test test-real franka-sim debian lint format type bench pictures docs build clean

run: .venv/runtime  ## watch a shipped policy adapt: its success, and a film
	$(BIN)/sami demo

test: .venv/dev  ## the whole test suite, a file at a time on each core
	$(BIN)/python -m pytest -n auto --dist loadfile --durations=15

test-real: .venv/dev .venv/franka-sim/ready  ## what takes minutes: real processes, clocks and signals, a million ticks
	$(BIN)/python -m pytest tests/real --durations=15

franka-sim: .venv/franka-sim/ready  ## a simulated Franka with a cube, behind the robot's own protocol, until Ctrl-C
	.venv/franka-sim/bin/python examples/franka/robot.py $(ROBOT)

debian:  ## what tests need from Debian (compilers and headers, Slurm, a browser, Fast DDS), where it may be installed
	sh tests/debian.sh

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: .venv/dev
	$(BIN)/mypy

bench: .venv/dev  ## the speeds that docs/results/speed.md quotes
	$(BIN)/sami bench models/panda-satesac.onnx --seconds 11
	$(BIN)/python benchmarks/training_speed.py

pictures: .venv/dev  ## every picture and card of README and docs, from the models and results in the repository
	$(BIN)/python benchmarks/pictures.py $(NAMES)

docs: .venv/dev  ## the documentation as a site in build/docs, with strict links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

build: .venv/dev  ## wheel and sdist, and the runtime's tests against the wheel, from another directory
	sh tests/built_wheel.sh $(abspath $(BIN)/python)

clean:
	rm -rf .venv build dist *.egg-info

.venv/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or 3.11 found (PyBullet has wheels for these). Install one, or give its path: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

# The runtime, recordings and the simulator; no torch.
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
