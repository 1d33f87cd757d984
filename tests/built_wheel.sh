#!/bin/sh
# Does what was built work where no checkout is? Builds wheel and sdist, installs the wheel into fresh environments,
# and uses it from another directory: first alone, then with the simulator and the runtime's tests, then in an empty
# folder with the models that it brings.
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
(cd "$place/dist" && du -h ./*)
set -- "$place"/dist/*.whl
wheel=$1

mkdir "$place/elsewhere/tests"
cp -R "$repository/tests/sami_runtime" "$repository/tests/making" "$place/elsewhere/tests/"
cp -R "$repository/benchmarks" "$place/elsewhere/"  # tests mutate files by what a benchmark is made of
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
from importlib.metadata import distribution, metadata
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
for name in ("sami_runtime/py.typed", "sami_train/py.typed", "sami_train/config/presets/fast-cpu.toml", "sami_train/config/presets/paper.toml", "sami_runtime/gap/modest.toml"):
    package, _, path = name.partition("/")
    assert files(package).joinpath(path).is_file(), f"{name} is not in the wheel"
print("types, presets and gaps are in the wheel")

folder = files("sami_models")
shipped = {path.stem for path in folder.iterdir() if path.suffix == ".onnx"}
assert "panda-satesac" in shipped, shipped
for name in shipped:
    assert folder.joinpath(f"{name}.md").is_file() and folder.joinpath(f"{name}.png").is_file(), f"{name} has no card"
assert {path.suffix for path in folder.iterdir() if path.is_file()} == {".onnx", ".safetensors", ".md", ".png", ".py"}
assert not folder.joinpath("runs").exists()
print("models and their cards are in the wheel:", *sorted(shipped))

about = metadata("sami-rl")
assert about["License-Expression"] == "MIT" and about.get_all("License-File") == ["LICENSE"], dict(about)
assert "MIT License" in distribution("sami-rl").read_text("licenses/LICENSE")
print("licence:", about["License-Expression"])
CHECK
"$bin/sami" --help
for command in train sweep eval robustness compare export atlas describe adapt inspect verify models run new-adapter check-adapter replay bench doctor; do
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

say "installing the extras [panda,record], pytest and onnx"
"$bin/python" -m pip install --quiet --disable-pip-version-check -c "$repository/constraints.txt" \
    "sami-rl[panda,record] @ file://$wheel" pytest onnx
say "the runtime's tests against the wheel"
"$bin/python" -m pytest --import-mode=importlib -W error -q -p no:cacheprovider tests/sami_runtime
say "running $model in an empty folder"
mkdir "$place/empty"
cd "$place/empty"
"$bin/sami" models
"$bin/sami" run --env panda --episodes 2
[ -z "$(ls -A)" ] || { echo "sami run left files behind: $(ls -A)" >&2; exit 1; }
"$bin/sami" run --model "$model" --episodes 3 --record run.mcap
"$bin/sami" replay run.mcap
! "$bin/python" -c 'import torch' 2>/dev/null || { echo "torch came along with [panda]" >&2; exit 1; }

say "the same from a checkout, in place of the wheel"
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e "$place/source"
"$bin/sami" models | grep -F "$place/source/models"
"$bin/sami" run --env panda --episodes 2
code=0
"$bin/sami" run --env hopper >/dev/null 2>error.txt || code=$?
cat error.txt
grep -qF "pip install -c $place/source/constraints.txt -e '$place/source[mujoco]'" error.txt && [ "$code" -eq 1 ] ||
    { echo "in a checkout without its extra, sami run ended with $code; expected 1 and the checkout" >&2; exit 1; }
say "the wheel works"
