"""What is expensive to make and only read: made once for all workers of a test run."""

import os
import shutil

from sami_train.files import locked


def made_once(tmp_path_factory, name, make):
    """Return the folder `name` that `make(folder)` filled in whichever worker asked first. Copy what you change."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of the whole run
    folder, done = root / f"shared-{name}", root / f"shared-{name}.done"
    with locked(root / f"shared-{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # another worker failed in it
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
