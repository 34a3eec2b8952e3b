"""Expressions of workflows, `${{ … }}`, as far as the generated file uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(?:(&&|\|\||==|!=|!|\(|\))|'((?:[^']|'')*)'|([A-Za-z_][\w.-]*))")


def evaluate(text: str, contexts: Mapping[str, Any]) -> Any:
    """Return the value of an expression. An unknown property is ""."""
    parser = _Parser(text, contexts)
    value = parser.any()
    assert parser.at == len(parser.tokens), f"cannot read `{text}`"
    return value


def interpolated(value: Any, contexts: Mapping[str, Any]) -> Any:
    """Return every string of a value with its `${{ … }}` replaced."""
    if isinstance(value, Mapping):
        return {key: interpolated(each, contexts) for key, each in value.items()}
    if isinstance(value, str):
        return re.sub(
            r"\$\{\{(.*?)\}\}", lambda found: str(evaluate(found[1].strip(), contexts)), value, flags=re.S
        )
    return value


class _Parser:
    """Recursive descent: `||` binds less than `&&`, that less than `==`, that less than `!`."""

    def __init__(self, text: str, contexts: Mapping[str, Any]) -> None:
        self.contexts, self.at = contexts, 0
        self.tokens = [match.groups() for match in _TOKEN.finditer(text)]
        rest = _TOKEN.sub("", text).strip()
        assert not rest, f"`{text}`: `{rest}` is beyond this evaluator"

    def _takes(self, *signs: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] in signs:
            self.at += 1
            return self.tokens[self.at - 1][0]
        return ""

    def any(self) -> Any:
        value = self._all()
        while self._takes("||"):
            other = self._all()
            value = value or other
        return value

    def _all(self) -> Any:
        value = self._equal()
        while self._takes("&&"):
            other = self._equal()
            value = value and other
        return value

    def _equal(self) -> Any:
        value = self._one()
        while sign := self._takes("==", "!="):
            is_same = str(value).lower() == str(self._one()).lower()
            value = is_same == (sign == "==")
        return value

    def _one(self) -> Any:
        if self._takes("!"):
            return not self._one()
        if self._takes("("):
            value = self.any()
            assert self._takes(")")
            return value
        _, literal, name = self.tokens[self.at]
        self.at += 1
        return literal.replace("''", "'") if name is None else self._property(name)

    def _property(self, path: str) -> Any:
        value: Any = self.contexts
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, Mapping) else ""
        return "" if value is None else value
