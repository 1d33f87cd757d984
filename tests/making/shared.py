"""Folders that are expensive to make and only read, made once for all workers of a test run."""

import os
import shutil

from sami_train.files import locked


def shared_folder(tmp_path_factory, name, make):
    """Return the folder `name`, which the first worker fills by `make(folder)`. Copy files before you change them."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # the folder of the whole run
    folder, marker = root / f"shared-{name}", root / f"shared-{name}.done"
    with locked(root / f"shared-{name}.lock"):
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)  # another worker has failed to fill it
            folder.mkdir()
            make(folder)
            marker.touch()
    return folder
