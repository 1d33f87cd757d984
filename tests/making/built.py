"""Wheel and sdist, built from the files that git tracks: `python -m tests.making.built FOLDER`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked(*folders):
    """Return the paths of files that git tracks and that exist on disk, relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def build(folder):
    """Build wheel and sdist into a folder, and return their paths.

    Builds a copy, since setuptools leaves build/ and *.egg-info beside the sources, and would pack an old build/.
    """
    with tempfile.TemporaryDirectory() as place:
        for name in tracked():
            path = Path(place, "source", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, path)
        process = subprocess.run(
            [sys.executable, "-m", "build", "--outdir", str(Path(place, "dist")), str(Path(place, "source"))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if process.returncode:
            raise SystemExit(f"{process.stdout}\nthe build failed; {sys.executable} needs the package `build`")
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy2(path, folder)) for path in sorted(Path(place, "dist").iterdir())]


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        print(f"{built.stat().st_size / 1e6:5.1f} MB  {built}")
