#!/bin/sh
# Tests the lower bounds in pyproject.toml, or the newest releases. Installs the oldest or newest versions that
# pyproject.toml allows into a fresh environment, and runs the tests there.
#
#     [TORCH=2.13.0] sh tests/versions.sh PYTHON oldest|newest [PYTEST ARGUMENTS]    # all tests but tests/real, if none are named
#
# uv resolves, pip installs. TORCH names a CPU build that pip finds, without the gigabytes that other builds need for
# GPUs. The script removes all of its files.
set -eu

[ $# -ge 2 ] || { echo "usage: sh tests/versions.sh PYTHON oldest|newest [PYTEST ARGUMENTS]" >&2; exit 2; }
case $2 in
    oldest) resolution=lowest-direct ;;
    newest) resolution=highest ;;
    *) echo "'$2' is neither oldest nor newest" >&2; exit 2 ;;
esac
python=$(command -v "$1") || { echo "$1 is no Python here; name a command or a path" >&2; exit 2; }
which=$2
shift 2
[ $# -gt 0 ] || set -- -n auto --dist loadfile

case $python in /*) ;; *) python=$(pwd)/$python ;; esac
repository=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/sami-versions.XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Use a copy, because installing writes *.egg-info beside the sources.
mkdir "$place/source"
(cd "$repository" && tar -cf - --exclude='./.venv' --exclude='./runs' --exclude='*.egg-info' --exclude='__pycache__' .) |
    (cd "$place/source" && tar -xf -)
cd "$place/source"
"$python" -m venv "$place/venv"
bin=$place/venv/bin
"$bin/python" -m pip install --quiet -c constraints.txt uv
extras=
for extra in cpu panda mujoco robotics train record convert ik sign report dev; do extras="$extras --extra $extra"; done
echo "${TORCH:+torch==$TORCH}" >"$place/chosen.txt"
# shellcheck disable=SC2086
"$bin/uv" pip compile --quiet --constraint "$place/chosen.txt" --no-header --no-annotate --resolution $resolution $extras \
    --python "$bin/python" pyproject.toml -o "$place/resolved.txt"
left_out='^$'
[ -z "${TORCH:-}" ] || left_out='^(nvidia-|cuda-|triton)'
grep -vE "$left_out" "$place/resolved.txt" >"$place/wanted.txt"
"$bin/python" -m pip install --quiet --no-deps -r "$place/wanted.txt"
"$bin/python" -m pip install --quiet --no-deps -e .
"$bin/sami" doctor
"$bin/python" -m pytest -q -p no:cacheprovider "$@" ||
    { echo "the tests fail with the $which versions: $(tr '\n' ' ' <"$place/wanted.txt")" >&2; exit 1; }
