#!/bin/sh
# Tests the built wheel and sdist outside a checkout. Installs the wheel into fresh environments and uses it from
# another directory: alone, by hashes, with the simulator and the runtime's tests, and in an empty folder with the
# models that it contains. Then does the same with the unpacked sdist.
#
#     sh tests/built_wheel.sh PYTHON FOLDER
#
# FOLDER contains one wheel and one sdist, as written to dist/ by `make build`. constraints.txt sets the versions. The
# script removes all of its files.
set -eu

[ $# -eq 2 ] || { echo "usage: sh tests/built_wheel.sh PYTHON FOLDER" >&2; exit 2; }
case $1 in
    /*) python=$1 ;;
    */*) python=$(pwd)/$1 ;;
    *) python=$(command -v "$1") || { echo "$1 was not found" >&2; exit 2; } ;;
esac
dist=$(cd "$2" && pwd)
repository=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/sami-wheel.XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
set -- "$dist"/*.whl "$dist"/*.tar.gz
[ $# -eq 2 ] && [ -f "$1" ] && [ -f "$2" ] || { echo "$dist has no single wheel and sdist: make build" >&2; exit 2; }
wheel=$1
mkdir "$place/source" "$place/elsewhere"
tar -xzf "$2" --strip-components=1 -C "$place/source"

say() { printf '== %s\n' "$*"; }

say "$("$python" --version)"
mkdir "$place/elsewhere/tests"
cp -R "$repository/tests/sami_runtime" "$repository/tests/making" "$repository/tests/cases" "$place/elsewhere/tests/"
cp -R "$repository/benchmarks" "$repository/examples" "$place/elsewhere/"  # tests use parts of them
model=panda-satesac
cd "$place/elsewhere"
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

say "installing the wheel without a build of onnxruntime"
"$python" -m venv "$place/alone"
bin=$place/alone/bin
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" "$wheel"
"$bin/python" -m pip --disable-pip-version-check list

say "using it from another directory"
"$bin/python" -W error - "$place/alone" <<'CHECK'
import importlib.util
import sys

import sami_cli
import sami_runtime
import sami_train

for package in (sami_runtime, sami_train, sami_cli):
    assert package.__file__.startswith(sys.argv[1]), f"{package.__name__} comes from {package.__file__}"
    print(package.__name__, "is the installed one")
for name in ("torch", "stable_baselines3", "onnx", "gymnasium", "pybullet"):
    assert importlib.util.find_spec(name) is None, f"{name} came along with the wheel"
print("torch and the simulators are absent")
CHECK
"$bin/sami" --help
for command in train sweep eval robustness compare export adopt diagnose audit atlas describe adapt inspect verify models demo run play drive \
    new-adapter check-adapter replay bench doctor verify-log; do
    "$bin/sami" "$command" --help >/dev/null
done
"$bin/sami" models
code=0
"$bin/sami" verify "$model" >/dev/null 2>error.txt || code=$?
cat error.txt
grep -qF "$bin/python -m pip install 'sami-rl[cpu] @ file://$wheel'" error.txt && [ "$code" -eq 1 ] ||
    { echo "without onnxruntime, sami verify ended with $code; expected 1 and how to install it" >&2; exit 1; }
say "installing the [cpu] extra"
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" "sami-rl[cpu] @ file://$wheel"
"$bin/sami" doctor
say "stepping, verifying and timing $model"
"$bin/python" -W error - "$model" <<'CHECK'
import sys

import sami_runtime
from sami_runtime.distribution import shipped_models

session = sami_runtime.Session.load(shipped_models()[sys.argv[1]])
session.reset()
step = session.step({signal.name: [0.0] * signal.size for signal in session.contract.observation})
print("action", step.action, "context", step.context)
CHECK
"$bin/sami" verify "$model"
"$bin/sami" bench "$model" --seconds 0.2 >/dev/null
code=0
"$bin/sami" train --env panda >/dev/null 2>error.txt || code=$?
cat error.txt
[ "$code" -eq 1 ] && [ "$(wc -l <error.txt)" -eq 1 ] ||
    { echo "without its extra, sami train ended with $code; expected one message and 1" >&2; exit 1; }

say "installing what a robot needs, by hashes"
"$python" -m venv "$place/hashed"
"$place/hashed/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r "$repository/requirements-robot.txt"
"$place/hashed/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"
"$place/hashed/bin/python" -m pip check
"$place/hashed/bin/sami" verify "$model"

say "installing the extras [panda,record,adopt] and pytest"
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" \
    "sami-rl[panda,record,adopt] @ file://$wheel" pytest
say "the runtime's tests against the wheel"
"$bin/python" -m pytest --import-mode=importlib -W error -W ignore::sami_runtime.errors.SafetyWarning -q -p no:cacheprovider tests/sami_runtime
say "running $model in an empty folder"
mkdir "$place/empty"
cd "$place/empty"
"$bin/sami" models
"$bin/sami" run --env panda --episodes 2
[ -z "$(ls -A)" ] || { echo "sami run left files behind: $(ls -A)" >&2; exit 1; }
"$bin/sami" run --model "$model" --episodes 3 --record run.mcap
"$bin/sami" replay run.mcap
! "$bin/python" -c 'import torch' 2>/dev/null || { echo "torch came along with [panda]" >&2; exit 1; }

say "the same from the unpacked sdist, in place of the wheel"
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e "$place/source"
"$bin/sami" models | grep -F "$place/source/models"
"$bin/sami" run --env panda --episodes 2
code=0
"$bin/sami" train --env panda >/dev/null 2>error.txt || code=$?
cat error.txt
grep -qF "pip install -e '$place/source[train]'" error.txt && [ "$code" -eq 1 ] ||
    { echo "without its extra, sami train ended with $code; expected 1 and how to install it from here" >&2; exit 1; }
say "the wheel works"
