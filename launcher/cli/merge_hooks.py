"""Add the hooks of launcher to a `.pre-commit-config.yaml` without changing the rest of the file."""

from __future__ import annotations

import io
from textwrap import indent
from typing import Any

HOOKS = r"""
- repo: local
  hooks:
    - id: launcher-fmt
      name: launcher fmt
      entry: launcher fmt
      language: system
      files: \.launcher\.(ya?ml|toml)$
      require_serial: true
    - id: launcher-validate
      name: launcher validate
      # Runs no code of the checkout. Remove --no-components if you trust all authors of commits.
      entry: launcher validate --no-components
      language: system
      files: \.launcher\.(ya?ml|toml)$
      require_serial: true
""".lstrip("\n")
"""One item of `repos`."""

IDS = frozenset({"launcher-fmt", "launcher-validate"})


def with_hooks(text: str) -> str | None:
    """Return `text` with the hooks appended to its repos; None if they cannot be added.

    A file that already has one of them, edited or not, is returned unchanged.
    """
    from ruamel.yaml.error import YAMLError

    try:
        before = _read(text) or {}
        if any(hook["id"] in IDS for repo in before.get("repos") or () for hook in repo["hooks"]):
            return text
        out = _added(text, before)
        wanted = {**before, "repos": [*(before.get("repos") or ()), *_read(HOOKS)]}
        # Verify the result: the end of the list was found by a scan of lines.
        return out if out is not None and _read(out) == wanted else None
    except (YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _read(text: str) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(text)


def _added(text: str, before: dict[str, Any]) -> str | None:
    line_end = "\r\n" if "\r\n" in text else "\n"
    hooks = HOOKS.replace("\n", line_end)
    if not before.get("repos"):
        if "repos" in before and not text.rstrip().endswith(("repos: []", "repos:")):
            return None
        head = text.rstrip().removesuffix("repos: []").removesuffix("repos:").rstrip()
        return (head + line_end if head else "") + f"repos:{line_end}" + indent(hooks, "  ")
    column, end = _end_of_repos(text)
    lines = text.splitlines(keepends=True)
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += line_end
    return "".join([*lines[:end], indent(hooks, " " * column), *lines[end:]])


def _end_of_repos(text: str) -> tuple[int, int]:
    """The column of the items of `repos`, and the number of the last line that belongs to them.

    Raises ValueError for a list in brackets.
    """
    from ruamel.yaml import YAML

    top = YAML(pure=True).compose(io.StringIO(text))
    repos = next(value for key, value in top.value if key.value == "repos")
    if repos.flow_style:
        raise ValueError("a list in brackets")
    lines = text.splitlines()
    end = repos.end_mark.line + (1 if repos.end_mark.column else 0)  # in a last line without an end
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    return repos.start_mark.column, end
