"""The last lines of a process that has ended. Python >= 3.6.

A line of stderr is for the message of its app, several lines are for a report. The module imports nothing.
"""

TAIL_BYTES = 8192
"""The number of bytes at the end of stderr that suffice to find the line."""

_WIDTH, _HEAD = 160, 60


def last_line(tail: bytes, secrets: "tuple[str, ...]" = (), *, whole: bool = True) -> str:
    """The last line of this text that is not blank, on one line, cut, and safe for a terminal; "" for none.

    Args:
        secrets: strings to replace by `***`, also where the text has only one line of them.
        whole: whether the text is the whole output. Else its first line, which may begin within a secret,
            does not count.
    """
    lines = _lines(tail, secrets, whole)
    return _shown(lines[-1].strip()) if lines else ""


def last_line_of(path: str) -> str:
    """The last line of a file, as `last_line` shows it; "" also where the file is missing."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return last_line(file.read(), whole=size <= TAIL_BYTES)
    except OSError:
        return ""


def last_lines(tail: bytes, count: int, secrets: "tuple[str, ...]" = ()) -> "list[str]":
    """The last non-blank lines of a whole text, each as in `last_line`, with its indentation."""
    return [_shown(line.rstrip()) for line in _lines(tail, secrets, True)[-count:]]


def _lines(tail: bytes, secrets: "tuple[str, ...]", whole: bool) -> "list[str]":
    text = _mask(plain(tail.decode("utf-8", "surrogateescape")), secrets).replace("\r", "\n")
    if not whole:
        text = text.partition("\n")[2]
    return [line for line in text.split("\n") if line.strip()]


def _shown(line: str) -> str:
    # As `launcher.text.printable`, which needs a newer Python.
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line.expandtabs(4))
    if len(text) <= _WIDTH:
        return text
    return f"{text[:_HEAD]} … {text[len(text) - _WIDTH + _HEAD + 3 :]}"  # the cause is often last


def _mask(text: str, secrets: "tuple[str, ...]") -> str:
    words = set(secrets)
    for secret in secrets:
        words.add(secret.encode("unicode_escape").decode("ascii"))
        words.update(secret.replace("\r", "\n").split("\n"))
    for word in sorted((each.strip() for each in words), key=len, reverse=True):
        if word:
            text = text.replace(word, "***")
    return text


def plain(text: str) -> str:
    """The text without its colours (SGR)."""
    first, *rest = text.split("\x1b[")
    for part in rest:
        after = part.lstrip("0123456789;:")
        first += after[1:] if after[:1] == "m" else "\x1b[" + part
    return first
