#!/bin/sh
# Rewrites requirements-robot.txt and requirements-robot-all.txt: the packages of robots' hosts, with the versions of
# constraints.txt and with hashes.
#
#     sh tests/hashed.sh
#
# uv resolves them, in a temporary environment.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d "${TMPDIR:-/tmp}/sami-hashed.XXXXXX")
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv

# pin FILE OPTION...: keeps the comment at the top of a file and resolves everything else again.
pin() {
    file=$1
    shift
    sed '/^[^#]/,$d' "$file" >"$place/requirements.txt"
    "$place/venv/bin/uv" pip compile --quiet --no-header --no-annotate --generate-hashes --universal \
        --python-version 3.10 -c constraints.txt --extra cpu --extra record --extra sign "$@" pyproject.toml \
        >>"$place/requirements.txt"
    cat "$place/requirements.txt" >"$file"
}
pin requirements-robot.txt
pin requirements-robot-all.txt --extra convert --extra ik --extra franka --extra ros2 --extra unitree
