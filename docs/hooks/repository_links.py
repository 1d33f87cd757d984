"""A hook of MkDocs that leads links to files outside docs/ to the repository. The sources work on GitHub as they are.

`Repository` of `[project.urls]` in pyproject.toml says where that is. Without it, such a link becomes plain text.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
PICTURES = (".png", ".gif", ".svg")


def repository() -> str | None:
    """Return the address of the repository, None where pyproject.toml gives none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository")
    return address.rstrip("/") if address else None


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that leave docs/."""
    folder, address = Path(page.file.src_uri).parent, repository()

    def rewritten(link: re.Match[str]) -> str:
        picture, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        path = os.path.normpath(Path("docs") / folder / target)
        if "://" in target or path.startswith("docs" + os.sep):
            return link[0]
        if address is None:
            return text
        view = "raw" if picture else "blob"
        return f"{picture}[{text}]({address}/{view}/main/{path}{anchor})"

    return LINK.sub(rewritten, markdown)
