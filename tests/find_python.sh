#!/bin/sh
# Prints the path of the first of these Pythons that is installed and runs; prints nothing and fails if there is none.
#
#     sh tests/find_python.sh 3.13 3.12
for version; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        path=$(command -v "$candidate") || continue
        # A name on PATH may be a shim without an installed Python.
        "$path" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null || continue
        echo "$path"
        exit 0
    done
done
exit 1
