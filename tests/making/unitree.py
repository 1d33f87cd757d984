"""The environment of the simulated Go2."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("SAMI_UNITREE_SIM", ROOT / ".venv" / "unitree-sim" / "bin" / "python"))
"""Of the simulated robot's environment, which `make unitree-sim` makes: Python 3.10 with cyclonedds 0.10."""
