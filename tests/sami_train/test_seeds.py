"""The streams of chance that are the same in every run."""

import re
from pathlib import Path

from sami_train import seeds

ROOM = Path(seeds.__file__).parent


def test_no_two_streams_of_episodes_begin_alike():
    assert len(set(seeds.EPISODES)) == len(seeds.EPISODES)


def test_every_large_seed_stands_in_the_table():
    sources = {path: path.read_text(encoding="utf-8") for path in ROOM.rglob("*.py")}
    assert [path for path, text in sources.items() if re.search(r"SEED = \d_\d{3}_\d{3}", text)] == []
