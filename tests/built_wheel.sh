#!/bin/sh
# Does what was built work where no checkout is? Builds wheel and sdist, installs the wheel into fresh environments,
# and uses it from another directory: first alone, then with the simulator and the runtime's tests.
#
#     sh tests/built_wheel.sh PYTHON
#
# PYTHON has the package `build`. Versions come from constraints.txt. Nothing is left behind.
set -eu

[ $# -eq 1 ] || { echo "usage: sh tests/built_wheel.sh PYTHON" >&2; exit 2; }
case $1 in
    /*) python=$1 ;;
    */*) python=$(pwd)/$1 ;;
    *) python=$(command -v "$1") || { echo "$1 was not found" >&2; exit 2; } ;;
esac
"$python" -c 'import build' 2>/dev/null || { echo "$python has no package 'build': pip install build" >&2; exit 2; }

repository=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/sami-wheel.XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '== %s\n' "$*"; }

say "building wheel and sdist"
# From a copy: setuptools leaves build/ and *.egg-info beside the sources, and would pack what an old build/ holds.
mkdir "$place/source" "$place/elsewhere"
(cd "$repository" && tar -cf - --exclude='./.*' --exclude='./build' --exclude='./dist' --exclude='./runs' \
    --exclude='*.egg-info' --exclude='__pycache__' .) | (cd "$place/source" && tar -xf -)
"$python" -m build --outdir "$place/dist" "$place/source" >"$place/build.log" 2>&1 ||
    { cat "$place/build.log" >&2; exit 1; }
ls "$place/dist"
set -- "$place"/dist/*.whl
wheel=$1

mkdir "$place/elsewhere/tests"
cp -R "$repository/tests/sami_runtime" "$repository/tests/making" "$place/elsewhere/tests/"
model=
for file in "$repository"/models/*.onnx; do
    [ -f "$file" ] && cp "$file" "$place/elsewhere/" && model=$(basename "$file")
done
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
from importlib.resources import files

import sami_cli
import sami_runtime
import sami_train

for package in (sami_runtime, sami_train, sami_cli):
    assert package.__file__.startswith(sys.argv[1]), f"{package.__name__} comes from {package.__file__}"
    print(package.__name__, "is the installed one")
for name in ("torch", "stable_baselines3", "onnx", "gymnasium", "pybullet"):
    assert importlib.util.find_spec(name) is None, f"{name} came along with the wheel"
print("torch and the simulators are absent")
for name in ("sami_runtime/py.typed", "sami_train/py.typed", "sami_train/config/presets/panda/fast-cpu.toml", "sami_train/config/presets/mujoco/paper.toml", "sami_runtime/gap/modest.toml"):
    package, _, path = name.partition("/")
    assert files(package).joinpath(path).is_file(), f"{name} is not in the wheel"
print("types, presets and gaps are in the wheel")
CHECK
"$bin/sami" --help
for command in train sweep eval robustness compare export atlas adapt inspect verify run replay bench doctor; do
    "$bin/sami" "$command" --help >/dev/null
done
if [ -n "$model" ]; then
    code=0
    "$bin/sami" verify "$model" >/dev/null 2>error.txt || code=$?
    cat error.txt
    grep -q "pip install 'sami\[cpu\]'" error.txt && [ "$code" -eq 1 ] ||
        { echo "without onnxruntime, sami verify ended with $code; expected 1 and the extra's name" >&2; exit 1; }
fi
say "installing the [cpu] extra"
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" "sami[cpu] @ file://$wheel"
"$bin/sami" doctor
if [ -n "$model" ]; then
    say "stepping, verifying and timing $model"
    "$bin/python" -W error - "$model" <<'CHECK'
import sys

import sami_runtime

session = sami_runtime.Session.load(sys.argv[1])
session.reset()
step = session.step({signal.name: [0.0] * signal.size for signal in session.contract.observation})
print("action", step.action, "context", step.context)
CHECK
    "$bin/sami" verify "$model"
    "$bin/sami" bench "$model" --seconds 0.2 >/dev/null
else
    say "models/ holds no .onnx file: stepping and verifying one is left to the runtime's tests"
fi
code=0
"$bin/sami" train --env panda >/dev/null 2>error.txt || code=$?
cat error.txt
[ "$code" -eq 1 ] && [ "$(wc -l <error.txt)" -eq 1 ] ||
    { echo "without its extra, sami train ended with $code; expected one message and 1" >&2; exit 1; }

say "installing the extras [panda,record], pytest and onnx"
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" \
    "sami[panda,record] @ file://$wheel" pytest onnx
say "the runtime's tests against the wheel"
"$bin/python" -m pytest --import-mode=importlib -W error -q -p no:cacheprovider tests/sami_runtime
if [ -n "$model" ]; then
    say "running $model"
    "$bin/sami" run --model "$model" --episodes 3 --record run.mcap
    "$bin/sami" replay run.mcap
fi
! "$bin/python" -c 'import torch' 2>/dev/null || { echo "torch came along with [panda]" >&2; exit 1; }
say "the wheel works"
