"""Hooks of MkDocs: links to files outside docs/ lead to the repository, and pages need no network.

`Repository` of `[project.urls]` in pyproject.toml gives its address. Without it, such a link becomes plain text.
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
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the plugin `offline` loads so that search works on pages that are opened from the disk."""


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


def on_post_build(*, config: Any, **_: Any) -> None:
    """Let every page load our script for searching from the disk, where the plugin names one of a network."""
    site = Path(config.site_dir)
    for path in site.rglob("*.html"):
        local = os.path.relpath(site / "javascripts" / "worker.js", path.parent)
        path.write_text(path.read_text(encoding="utf-8").replace(SHIM, local), encoding="utf-8")
