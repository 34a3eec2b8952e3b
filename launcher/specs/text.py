"""Small text forms shared by specs: "k=v,…", commands, mounts and amounts as other tools write them, and
plain data as YAML, which is only written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeGuard

_DELIMITERS = ",;"
# `source:target[:options]`; a mount with a comma cannot be written as one text here.
_COMPOSE_MOUNT = re.compile(r"(?P<src>[^:=,]+):(?P<dst>/[^:,]*)(?::(?P<options>[\w,]+))?")
_MILLIS = re.compile(r"([0-9]{1,9})m")


def command(words: Sequence[str]) -> str:
    """Return a command as a job file writes it: "`entrypoint: sh`, `args: ['-c', ls]`"."""
    args = f", `args: {to_flow(words[1:])}`" if words[1:] else ""
    return f"`entrypoint: {to_flow(words[0])}`{args}"


def split_command(text: str) -> str:
    """Return a program that has several words as a job file would write it; "" for a single word.

    A text that the shell could not split is split at its blanks.
    """
    words = shell_words(text) or text.split()
    return command(words) if len(words) > 1 else ""


def shell_words(text: str) -> list[str] | None:
    """Return the words that a shell makes of a text; None when a quote is never closed."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return None


def compose_mount(text: str) -> str:
    """A mount as Compose writes it in our text form: "./a:/b:ro" → "type=bind,src=./a,dst=/b,readonly".

    "" for a text of another form.
    """
    found = _COMPOSE_MOUNT.fullmatch(text.strip())
    if found is None:
        return ""
    src, options = found["src"], (found["options"] or "").split(",")
    if src.startswith("/dev/") and not f"{src}/".startswith("/dev/shm/"):
        permissions = "".join(options)
        more = f",permissions={permissions}" if permissions and not set(permissions) - set("rwm") else ""
        return f"type=device,src={src},dst={found['dst']}{more}"
    kind = "bind" if src.startswith((".", "/", "~")) else "volume"
    return f"type={kind},src={src},dst={found['dst']}" + (",readonly" if "ro" in options else "")


def cores_meant(text: str) -> str:
    """Convert thousandths of cores, as Kubernetes writes them, to a number: "500m" → "0.5"; else ""."""
    found = _MILLIS.fullmatch(text.strip())
    return f"{int(found[1]) / 1000:g}" if found else ""


def to_dict(text: str) -> dict[str, str]:
    """Read `key=value` pairs with `,` or `;` between them: "K=a,b;J=d" -> {"K": "a,b", "J": "d"}.

    A value goes on up to the last delimiter in front of the next key, so a list needs no quotes. A value
    wholly in single or double quotes loses them and may hold `=`. Of equal keys the last one wins.
    Raises ValueError, with a message for the user, for text of another form.
    """
    pairs: dict[str, str] = {}
    key, equals, rest = text.partition("=")
    if not equals:
        raise ValueError(f"`{text}` has no `key=value` pair")
    while True:
        key = key.strip()
        if not key:
            raise ValueError(f"a key is missing in front of `={rest}`")
        value, delimiter, key_and_more = _cut_value(key, rest)
        value = value.strip()
        is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
        pairs[key] = value[1:-1] if is_quoted else value
        if not delimiter:
            return pairs
        key, _, rest = key_and_more.partition("=")


def _cut_value(key: str, rest: str) -> tuple[str, str, str]:
    """Split the text behind `key=` into the value, the delimiter after it ("" at the end) and the rest."""
    start = _end_of_quoted(rest)
    equals = rest.find("=", start)
    if equals < 0:
        if not rest.strip():
            raise ValueError(f"`{key}=` has no value; write `{key}=''` for an empty text")
        return rest, "", ""
    cut = max(rest.rfind(delimiter, start, equals) for delimiter in _DELIMITERS)
    if cut < 0:
        raise ValueError(f"a value with `=` in it needs quotes: `{key}='{rest}'`")
    if not rest[:cut].strip():
        raise ValueError(f"`{key}=` has no value; write `{key}=''` for an empty text")
    if not rest[cut + 1 : equals].strip():
        raise ValueError(f"a key is missing in front of `{rest[equals:]}`")
    return rest[:cut], rest[cut], rest[cut + 1 :]


def _end_of_quoted(rest: str) -> int:
    """Index behind the closing quote when `rest` starts with a quoted value, else 0.

    A closing quote is one with a delimiter or the end behind it, so `it's` and `'a'b` are plain text.
    """
    start = len(rest) - len(rest.lstrip())
    quote = rest[start : start + 1]
    if quote not in ("'", '"'):
        return 0
    end = start
    while (end := rest.find(quote, end + 1)) > 0:
        behind = rest[end + 1 :].lstrip()
        if not behind or behind[0] in _DELIMITERS:
            return end + 1
    return 0


# Text that needs no quotes: not read by YAML as a number, a null, a boolean or syntax.
_PLAIN = r"(?!\.[\d_])[A-Za-z_./<][\w./<>@+()=-]*(?: [\w./<>@+()=-]+)*"
_KEYWORDS = frozenset({"<<", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"})
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x1b": "\\e"}


def to_yaml(value: object, *, sort: bool = True) -> str:
    """Return YAML in block style, with one final newline, for plain data: mappings, lists and scalars.

    Args:
        sort: whether keys are sorted or keep their order.
    """
    return "\n".join(_block(value, sort)) + "\n"


def to_flow(value: str | Sequence[str]) -> str:
    """Return the YAML of a text, or of a list of texts, on one line."""
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _block(value: object, sort: bool) -> list[str]:
    if isinstance(value, Mapping) and value:
        out: list[str] = []
        for key in sorted(value, key=str) if sort else value:
            head, item, inner = f"{_scalar(str(key))}:", value[key], _block(value[key], sort)
            if isinstance(item, Mapping) and item:
                out += [head, *(f"  {line}" for line in inner)]
            else:
                out += [head, *inner] if _is_list(item) and item else [f"{head} {inner[0]}"]
        return out
    if _is_list(value) and value:
        out = []
        for item in value:
            inner = _block(item, sort)
            out.append(f"- {inner[0]}")
            out += [f"  {line}" for line in inner[1:]]
        return out
    return [_scalar(value)]


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if isfinite(value) else f"{value}".replace("inf", ".inf").replace("nan", ".nan")
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, Mapping):
        return "{}"
    if _is_list(value):
        return "[]"
    return _text(str(value))


def _text(text: str) -> str:
    if re.fullmatch(_PLAIN, text, re.ASCII) and text.lower() not in _KEYWORDS:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    if char in _SHORT:
        return _SHORT[char]
    return f"\\U{ord(char):08x}"
