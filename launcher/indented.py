"""Write JSON with an indent of two: the text of `json.dumps(value, indent=2)`, in less than half its time.

The standard library passes each piece of text through a generator for each level that it is in.
"""

from __future__ import annotations

from json import dumps
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import Any, Final

_WORDS: Final = {None: "null", True: "true", False: "false"}


def indented(value: Any, margin: str = "\n") -> str:
    """The value as JSON in lines. The keys of its mappings are texts.

    Args:
        margin: the line end and the spaces before the closing bracket.
    """
    if isinstance(value, str):
        return quoted(value)
    if value is None or value is True or value is False:
        return _WORDS[value]
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    inner = margin + "  "
    if isinstance(value, dict) and value:
        items = [
            f"{quoted(name)}: {quoted(each) if type(each) is str else indented(each, inner)}"
            for name, each in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(items)}{margin}}}"
    if isinstance(value, (list, tuple)) and value:
        return f"[{inner}{f',{inner}'.join([indented(each, inner) for each in value])}{margin}]"
    return dumps(value)
