"""GitHub's own description of the requests in use: each is checked against it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator


def violations(method: str, path: str, query: dict[str, str], body: Any) -> Iterator[str]:
    """Yield where a request differs from the description. `path` begins with `/repos/`."""
    operation = next((each for each in _operations() if _matches(each, method, path)), None)
    if operation is None:
        yield f"{method} {path} is not described"
        return
    described = {each["name"]: each["schema"] for each in operation["parameters"] if each["in"] == "query"}
    for name, text in query.items():
        if name not in described:
            yield f"{method} {path}: there is no parameter `{name}`"
            continue
        value: Any = int(text) if described[name].get("type") == "integer" and text.isdigit() else text
        for error in Draft202012Validator(described[name]).iter_errors(value):
            yield f"{method} {path}: `{name}`: {error.message}"
    if operation["body"] is None:
        if body is not None:
            yield f"{method} {path} takes no body"
        return
    for name in body if isinstance(body, dict) else ():
        if name not in operation["body"]["properties"]:
            yield f"{method} {path}: there is no field `{name}`"
    for error in Draft202012Validator(operation["body"]).iter_errors(body):
        yield f"{method} {path}: {error.json_path}: {error.message}"


def _matches(operation: dict[str, Any], method: str, path: str) -> bool:
    pattern = re.sub(r"\{\w+\}", "[^/]+", operation["path"])
    return operation["method"] == method and re.fullmatch(pattern, path) is not None


@cache
def _operations() -> list[dict[str, Any]]:
    data = json.loads((Path(__file__).parent / "openapi.json").read_text())
    return list(data["operations"])
