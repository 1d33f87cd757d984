#!/bin/sh
# Writes requirements-robot.txt anew: what a robot's host runs, by the versions of constraints.txt and by hashes.
#
#     sh tests/hashed.sh
#
# uv resolves, in an environment of its own that is removed again.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d "${TMPDIR:-/tmp}/sami-hashed.XXXXXX")
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
sed '/^[^#]/,$d' requirements-robot.txt >"$place/requirements.txt"
"$place/venv/bin/uv" pip compile --quiet --no-header --no-annotate --generate-hashes --universal --python-version 3.10 \
    -c constraints.txt --extra cpu --extra record --extra sign pyproject.toml >>"$place/requirements.txt"
cat "$place/requirements.txt" >requirements-robot.txt
