"""Text that several layers read or write: durations, names, colours, plurals, folded tables. No I/O.

Every command imports this module, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from typing import TypeVar

    T = TypeVar("T")


STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
"""Style → code of an escape sequence (SGR)."""

RESET = "\x1b[0m"

DURATION_EXAMPLES = "90 (seconds), 10s, 5m, 1.5h or 1h30m"
DURATION_UNITS = "w d h m s ms, largest first, as in 1h30m or 1.5h"
_UNITS_S = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
DURATION_PATTERN = "^(?=.)" + "".join(rf"([0-9]+(\.[0-9]+)?{unit})?" for unit in _UNITS_S) + "$"
"""The grammar of `seconds_in` as a regular expression for JSON schemas."""

_LONGEST_PATH_NAME = 100  # well below the 255 bytes of a file name, to leave room for suffixes
_LONGEST_ARGUMENT = 131_071  # bytes: MAX_ARG_STRLEN of Linux, less the end of the text
_LONGEST_DURATION = 100  # characters, so that long texts are refused at once
_LONGEST_NAME = 100  # characters of names whose slips are counted, which takes the product of their lengths
_MOST_LISTED = 100  # names in a hint
_MOST_COMPARED = 100_000  # names with unknown ones, for the hints of one file


def paint(text: str, style: str, color: bool = True) -> str:
    """Return `text` in the style ("bold red"); unchanged without colours."""
    if not color or not style or not text:
        return text
    codes = ";".join(STYLES[word] for word in style.split())
    return f"\x1b[{codes}m{text}{RESET}"


def width(text: str) -> int:
    """The columns that `text` takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def wrapped(text: str, columns: int) -> list[str]:
    """Wrap a text to lines of at most `columns`; a longer word gets a line of its own.

    Text in backticks is one word, so that it can be copied.
    """
    words: list[str] = []
    for part in text.split(" "):
        if words and words[-1].count("`") % 2:
            words[-1] += f" {part}"
        else:
            words.append(part)
    lines: list[str] = []
    for word in words:
        if lines and width(f"{lines[-1]} {word}") <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def printable(text: str) -> str:
    r"""`text` with all that is not printable escaped ("\x1b", "\n"), so that it cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unusable_in(text: str) -> str:
    """Return the name of a part that no argument or path can hold: "a NUL character"; "" for none."""
    if "\0" in text:
        return "a NUL character"
    try:
        # Surrogates that represent the bytes of a name that is not UTF-8 may pass.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "half a character (a lone surrogate)"
    most = _LONGEST_ARGUMENT
    return f"more than {most:,} bytes: pass the name of a file" if size > most else ""


def with_cause(message: str, cause: str) -> str:
    """`main/0 exited with 1; main/0: no data`: how an app ended, and the error that a replica reported.

    Returns only the message where it holds the error already, as the last line of stderr.
    """
    error = cause.partition(": ")[2]
    if not cause or (error and message.endswith(f": {error}")):
        return message
    return f"{message}; {cause}" if message else cause


def fenced(text: str, language: str) -> str:
    """A code block of Markdown with a fence that does not occur in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


FEW = 10
"""The most lines of one kind that tables and plans show; beyond that, lines are folded or counted."""


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`, `3,000 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def unlinked(markdown: str) -> str:
    """Markdown in which `@team` mentions no user, and `#1` no issue: on GitHub a backslash does not help."""
    pairs = zip(f" {markdown}", markdown, strict=False)  # `train@2` is not a mention
    return "".join(
        f"{sign}<!-- -->" if sign == "#" or (sign == "@" and not before.isalnum()) else sign
        for before, sign in pairs
    )


def listing(words: Sequence[str], limit: int = 5) -> str:
    """`a, b, c`, and `… and 4 more` past the limit."""
    shown = ", ".join(words[:limit])
    return shown if len(words) <= limit else f"{shown} … and {len(words) - limit:,} more"


def first_lines(lines: Sequence[str]) -> str:
    """Return the first FEW of the lines as one text, and the number of the others."""
    more = [f"… and {len(lines) - FEW:,} more"] if len(lines) > FEW else []
    return "\n".join([*lines[:FEW], *more])


def some_of(names: Sequence[str], limit: int = 10) -> str:
    """`train.py, model.py`, safe on a terminal, and past the limit `and 3 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(printable, names[:limit])) + more


def path_name(name: str) -> str:
    """`name` as one component of a path: letters, digits, `.`, `_` and `-` stay, the rest becomes `-`."""
    kept = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "-" for c in name)
    return kept.lstrip(".-")[:_LONGEST_PATH_NAME] or "x"


def path_names(names: Iterable[str]) -> list[str]:
    """A path component for each of `names`, in order, all distinct on any file system."""
    taken: set[str] = set()
    out = []
    for name in names:
        base = path_name(name)
        found, n = base, 2
        while found.lower() in taken:
            found, n = f"{base}-{n}", n + 1
        taken.add(found.lower())
        out.append(found)
    return out


def memory(mebibytes: float) -> str:
    """`3.5 MiB`, `512 MiB`, `16 GiB`, `1.5 GiB`."""
    if mebibytes < 1024:
        return f"{round(mebibytes, 1 if mebibytes < 10 else None):g} MiB"
    return f"{round(mebibytes / 1024, 1):g} GiB"


def core_count(number: float) -> str:
    """`0.02`, `1.8`, `64`."""
    return f"{round(number, 2 if number < 1 else 1):g}"


def cores(number: float) -> str:
    """`1 core`, `under 0.01 cores`, `0.02 cores`, `1.8 cores`."""
    if number < 0.005:
        return "under 0.01 cores"
    count = core_count(number)
    return f"{count} core{'' if count == '1' else 's'}"


def seconds_in(text: str) -> float | None:
    """Seconds, to the microsecond, from a duration: `250ms`, `10s`, `1h30m`, `1.5d`.

    The sum of `number unit` pairs, the largest unit first. None for text of another form.
    """
    if not text or len(text) > _LONGEST_DURATION:
        return None
    total, rest, units = 0.0, text, list(_UNITS_S)
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        letters = digits
        while letters < len(rest) and rest[letters].isalpha():
            letters += 1
        number, unit, rest = rest[:digits], rest[digits:letters], rest[letters:]
        if not is_number(number) or unit not in units:
            return None
        del units[: units.index(unit) + 1]
        total += float(number) * _UNITS_S[unit]
    return round(total, 6)


def is_number(text: str) -> bool:
    """Whether it is a decimal number without a sign, such as `90` or `1.5`."""
    whole, point, part = text.partition(".")
    return text.isascii() and whole.isdigit() and (part.isdigit() if point else True)


def duration_meant(text: str) -> str:
    """Return the right form of a duration in words or as a clock; "" for other text.

    "2 hours" → "2h", "30 min, 1 hr" → "1h30m", "1.5 Hours" → "1.5h", "02:00:00" → "2h",
    "1-02:00:00" → "1d2h", "PT30M" → "30m", "1m30" → "1m30s".
    """
    import re

    if len(text) > _LONGEST_DURATION:
        return ""
    text = text.strip().lower()
    if clock := re.fullmatch(r"(?:(\d{1,4})-)?(\d{1,4}):([0-5]\d):([0-5]\d)", text, re.ASCII):
        parts = zip((int(part or 0) for part in clock.groups()), "dhms", strict=True)
        return "".join(f"{amount}{unit}" for amount, unit in parts if amount)
    if short := re.fullmatch(r"(\d{1,9})([hm])(\d{1,2})", text, re.ASCII):
        return f"{short[1]}{short[2]}{int(short[3])}{'m' if short[2] == 'h' else 's'}"
    if re.fullmatch(r"p(?:\d+d)?(?:t(?:\d+h)?(?:\d+m)?(?:\d+s)?)?", text, re.ASCII):  # ISO 8601
        text = text.replace("p", "").replace("t", "")
    units = r"w|weeks?|d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?"
    part = rf"(\d{{1,9}}(?:\.\d{{1,6}})?)\s*({units})(?![a-z])\s*(?:,|and\b)?\s*"
    if not re.fullmatch(f"(?:{part})+", text, re.ASCII):
        return ""
    amounts = {unit[0]: amount for amount, unit in re.findall(part, text, re.ASCII)}
    return "".join(f"{amounts[unit]}{unit}" for unit in _UNITS_S if unit in amounts)


def natural(name: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key for names that compares numbers by value: `lr-2` comes before `lr-10`.

    Numbers are read as in names of a matrix's jobs: 0p1 is 0.1, m3 is -3, 1em05 is 1e-05.
    """
    key: list[tuple[int, float, str]] = []
    for part in name.split("-"):
        if part not in _PARTS:
            _PARTS[part] = _natural(part)
        key += _PARTS[part]
    return tuple(key)


_PARTS: dict[str, tuple[tuple[int, float, str], ...]] = {}
"""Part of a name → its part of the sort key: the names of a matrix's jobs have few different ones."""


def _natural(part: str) -> tuple[tuple[int, float, str], ...]:
    sign = "-" if part[:1] == "m" and part[1:2].isdigit() else ""
    if part[len(sign) :][:1].isdigit():
        try:
            return ((0, float(sign + part[len(sign) :].replace("em", "e-").replace("p", ".")), ""),)
        except ValueError:
            pass
    letters = part.rstrip("0123456789")
    digits = ((0, float(part[len(letters) :]), ""),) if len(letters) < len(part) else ()
    return ((1, 0.0, letters), *digits)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the nearest of the known names, None when none is near."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else None


def has_hints(problems: int, known: int) -> bool:
    """Whether a further unknown name gets a hint, after so many problems: a hint takes time for each known
    name, and a file may have thousands of both."""
    return problems * (known + 100) <= _MOST_COMPARED


def name_hint(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for an unknown name: the nearest known one, else the known names, else None."""
    names = sorted(known)
    return did_you_mean(name, names) or (f"there are: {listing(names, _MOST_LISTED)}" if names else None)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the fewest slips from `name`, None when none is near.

    A name is near with one slip in two letters, two in five, three in eight; or when one name begins the
    other or is a part of it: `echo` in `utils.echo`. Letter case and `-` for `_` are no slips.
    """
    word = _plain(name)
    letters = set(word)
    alike: str | None = None
    part: tuple[int, str] | None = None
    least = len(word) + 1
    for candidate in known if len(word) <= _LONGEST_NAME else ():
        plain = _plain(candidate)
        longer, gap = max(len(word), len(plain)), abs(len(word) - len(plain))
        allowed = min((longer + 1) // 3, least - 1)
        # Length and letters rule out most names; a file may have thousands of unknown ones.
        is_near = longer <= _LONGEST_NAME and gap <= allowed and len(letters.difference(plain)) <= allowed
        if is_near and (slips := distance(word, plain, allowed)) <= allowed:
            alike, least = candidate, slips
        elif alike is None and (part is None or gap < part[0]) and _is_part(word, plain):
            part = gap, candidate
    return part[1] if alike is None and part else alike


def typed(path: str) -> str:
    """Return a path as a user types it into a command line: quoted for the shell, and not an option."""
    from shlex import quote

    return quote(f"./{path}" if path.startswith("-") else path)


def dotted(path: Iterable[str | int]) -> str:
    """("roles", "main", "args", 0) → "roles.main.args[0]"."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def distance(one: str, other: str, most: int = _LONGEST_NAME) -> int:
    """Return the number of slips between two texts: an extra, missing or wrong letter, or two swapped ones.

    More than `most` slips may count as one more than that.

    Source: Damerau and Levenshtein, in the form that edits no letter twice ("optimal string alignment").
    """
    alike = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    one, other = one[alike:], other[alike:]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, above[j - 2] + 1)
            row.append(best)
        if min(row) > most and min(before) >= most:
            return most + 1  # a number of a later row comes from these two, where a swap adds one
    return row[-1]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _is_part(word: str, candidate: str) -> bool:
    short, long = sorted((word, candidate), key=len)
    return len(short) > 2 and (long.startswith(short) or short in long.replace(".", "-").split("-"))


def fold(
    items: Sequence[T],
    family_of: Callable[[T], Hashable],
    kind_of: Callable[[T], Hashable],
    matters: Callable[[T], object],
) -> list[list[T]]:
    """Return the items of each line; a line has the position of its first item.

    Args:
        family_of: the family of an item, such as its matrix; a falsy value for none.
        kind_of: items of a large family with the same kind share a line.
        matters: whether the first FEW items of a kind always have lines of their own, as failures have.
    """
    from collections import Counter

    kinds = [(family, kind_of(each)) if (family := family_of(each)) else None for each in items]
    sizes = Counter(kinds)
    shown: Counter[Hashable] = Counter()
    lines: dict[Hashable, list[T]] = {}
    for number, (item, kind) in enumerate(zip(items, kinds, strict=True)):
        shown[kind] += 1
        is_alone = kind is None or sizes[kind] <= FEW or (matters(item) and shown[kind] <= FEW)
        lines.setdefault(number if is_alone else kind, []).append(item)
    return list(lines.values())


def named(names: Sequence[str]) -> str:
    """Return `sweep-1`, or `sweep-1 and 11 more`."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
