"""One kind of quotes: double ones, single ones where the text itself holds a `"` or a backslash."""

from __future__ import annotations


def requoted(literal: str, value: str) -> str:
    """The quoted text `literal`, whose value is `value`, in the quotes that it should have.

    What cannot be written without escapes, and what spans lines, stays as it is.
    """
    if not literal or literal[0] not in "\"'" or not value.isprintable() or "\n" in literal:
        return literal
    if literal.startswith(('"""', "'''")):
        return literal
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    if "'" not in value:
        return f"'{value}'"
    return literal
