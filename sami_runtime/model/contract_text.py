"""The contract as text: a JSON document, of which nothing is believed yet."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from pydantic import ValidationError

from sami_runtime.documents import plain_strings, unique
from sami_runtime.errors import ContractError


def version_of(text: str, source: str) -> Any:
    """Return the version that a document claims, read before anything else in it is judged."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{source} has a contract that is not JSON: {error}. Export the model again.") from error
    if plain_strings(document, allowed="\n\t") != document:
        raise ContractError(
            f"{source} has a contract with characters that a terminal obeys instead of printing them. Export the model "
            "again, under names that can be printed."
        )
    if not isinstance(document, dict) or "version" not in document:
        raise ContractError(f"{source} has a contract without a version. Export the model again.")
    return document["version"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def explain(error: ValidationError) -> str:
    """Return the first few problems of a contract, each with its field and the value found there."""
    problems = []
    for problem in error.errors(include_url=False)[:5]:
        field = ".".join(map(str, problem["loc"])) or "the document"
        message = problem["msg"].removeprefix("Value error, ")
        shown = repr(problem["input"])
        value = f" (found {shown})" if problem["type"] != "missing" and len(shown) <= 60 else ""
        problems.append(f"contract field {field!r}: {message}{value}")
    if error.error_count() > len(problems):
        problems.append(f"and {error.error_count() - len(problems)} more")
    return "; ".join(problems)


def text_sha256(text: str) -> str:
    """Return the hash of a contract's JSON."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
