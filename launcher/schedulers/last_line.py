"""The last line that a replica wrote to stderr, for the message of its app.

Nothing is imported: the supervisor must stay small, and this module travels to clusters, with Python 3.6.
"""

TAIL_BYTES = 8192
"""How much of the end of stderr is enough to find the line."""

_WIDTH = 160


def last_line(tail: bytes, secrets: "tuple[str, ...]" = (), *, whole: bool = True) -> str:
    """The last line of this text that is not blank, on one line, cut, and safe for a terminal; "" for none.

    Args:
        secrets: strings that are replaced by `***`, also where only one line of them stands in the text.
        whole: whether the text begins where the program did. Else its first line, which may begin within a
            secret, does not count.
    """
    text = _mask(_plain(tail.decode("utf-8", "surrogateescape")), secrets).replace("\r", "\n")
    if not whole:
        text = text.partition("\n")[2]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    line = lines[-1].expandtabs(4) if lines else ""
    # As `launcher.text.printable`, which needs a newer Python.
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 2] + " …"


def _mask(text: str, secrets: "tuple[str, ...]") -> str:
    words = set(secrets)
    for secret in secrets:
        words.add(secret.encode("unicode_escape").decode("ascii"))
        words.update(secret.replace("\r", "\n").split("\n"))
    for word in sorted((each.strip() for each in words), key=len, reverse=True):
        if word:
            text = text.replace(word, "***")
    return text


def _plain(text: str) -> str:
    """The text without its colours (SGR)."""
    first, *rest = text.split("\x1b[")
    for part in rest:
        after = part.lstrip("0123456789;:")
        first += after[1:] if after[:1] == "m" else "\x1b[" + part
    return first
