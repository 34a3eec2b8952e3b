"""Parse TOML text into plain values. Positions come from `toml_positions`, on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import tomli

from launcher.jobfile.diagnostic import Diagnostic, Related
from launcher.jobfile.text.document import (
    BLANKS,
    MAX_DEPTH,
    MAX_NODES,
    Document,
    Path,
    Source,
    Spot,
    blank_name,
    pasted,
    too_deep,
    too_many,
)
from launcher.jobfile.text.toml_positions import NotToml, Statement, bracket_below, paths, scan, statements

_DUPLICATE = re.compile(r"Cannot overwrite|Cannot declare|Duplicate inline|Cannot redefine|Cannot mutate")
_WORD = re.compile(r"[^\s,\]}#]+")
_MAX_DUPLICATES = 50


def parse_toml(source: Source) -> Document:
    """Parse a TOML document. Never raises: faults are among the document's problems."""
    problems: list[Diagnostic] = []
    text = source.text
    for _ in range(_MAX_DUPLICATES):
        try:
            value = tomli.loads(text)
            break
        except tomli.TOMLDecodeError as error:
            known = len(problems)
            rest = _without_duplicate(source, text, error, problems)
            if rest is None:
                if len(problems) == known:
                    problems.append(_syntax(source, error))
                return Document(source, None, _nowhere, problems)
            text = rest
        except (RecursionError, ValueError) as error:
            problems.append(_unread(source, error))
            return Document(source, None, _nowhere, problems)
    else:
        return Document(source, None, _nowhere, problems)
    over = _over_limit(value, 1, [0])
    if over is not None:
        problems.append(_limit(source, over))
    elif not value and not problems:
        hint = "begin with `version = 1`, `name = …` and a table `[roles.…]`"
        problems.append(source.diagnostic(0, 1, "missing-field", "the file is empty", hint=hint))
    else:
        return Document(source, value, lru_cache(maxsize=1)(partial(scan, text)), problems)
    return Document(source, None, _nowhere, problems)


def _nowhere() -> Spot:
    return Spot(0, 0)


class _Over(NamedTuple):
    """The first value that exceeds a limit."""

    said: Callable[[Source, int], Diagnostic]
    path: Path


def _over_limit(value: Any, depth: int, count: list[int]) -> _Over | None:
    """Return the first value that has too many levels around it, or too many values before it."""
    count[0] += 1
    if count[0] > MAX_NODES:
        return _Over(too_many, ())
    if not isinstance(value, dict | list):
        return None
    if depth > MAX_DEPTH:
        return _Over(too_deep, ())
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if over := _over_limit(part, depth + 1, count):
            return _Over(over.said, (key, *over.path))
    return None


def _without_duplicate(
    source: Source, text: str, error: tomli.TOMLDecodeError, problems: list[Diagnostic]
) -> str | None:
    """Note a duplicate key; return the text with its statement blanked, so that the rest is checked too.

    None when the rest cannot be checked: the error is another one, or a whole table is a duplicate (its keys
    would fall to the table before it).
    """
    if not _DUPLICATE.search(str(error)):
        return None
    at = _offset(source, error)
    seen: dict[Path, Statement] = {}
    try:
        for path, statement in paths(statements(text)):
            if statement.end >= at:
                problems.append(_duplicate(source, path, statement, seen, error))
                start, end = statement.start, statement.end
                if statement.value is None or path not in seen:
                    return None
                return text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
            seen.setdefault(path, statement)
    except NotToml:
        pass
    return None


def _duplicate(
    source: Source, path: Path, statement: Statement, seen: dict[Path, Statement], error: Exception
) -> Diagnostic:
    related: tuple[Related, ...]
    keys, inside = statement.keys, (path[:size] for size in range(1, len(path)))
    closed = next((each for each in inside if each in seen and _is_inline(seen[each])), None)
    if closed is not None:  # the table or key extends an inline table that has ended above
        dotted, first = ".".join(map(str, closed)), seen[closed]
        message = f"`{dotted}` ends with its braces: nothing can be added to it here"
        hint = f"or begin `{dotted}` with [{dotted}] instead of braces, and write a line for each of its keys"
        related = (_related(source, first, "it stands here"),)
        label, start, end = "write this between its braces", keys[0].start, keys[-1].end
        return source.diagnostic(start, end, "toml-syntax", message, label=label, hint=hint, related=related)
    name, start, end = keys[-1]
    inline = re.search(r"Duplicate inline table key '(.*)'", str(error))
    if inline and (at := source.text.rfind(inline[1], end, statement.end)) >= 0:
        name, start, end = inline[1], at, at + len(inline[1])
    other = None if inline else _first(path, seen)
    related = (_related(source, other, "the first one is here"),) if other is not None else ()
    message, label = f"`{name}` stands twice in this mapping", "delete one of them"
    return source.diagnostic(start, end, "duplicate-key", message, label=label, related=related)


def _is_inline(statement: Statement) -> bool:
    return statement.value is not None and statement.value.entries is not None


def _related(source: Source, statement: Statement, message: str) -> Related:
    key = statement.keys[-1]
    return source.related(key.start, key.end, message)


def _first(path: Path, seen: dict[Path, Statement]) -> Statement | None:
    """Return the statement that `path` collides with: the same path, one below it, or a value above it."""
    plain = path[:-1] if isinstance(path[-1], int) else path
    for exact in (path, plain):
        if exact in seen:
            return seen[exact]
    for other, statement in seen.items():
        if other[: len(plain)] == plain or (statement.value is not None and plain[: len(other)] == other):
            return statement
    return None


def _offset(source: Source, error: tomli.TOMLDecodeError) -> int:
    """Return the offset where tomli stopped; its own one counts a line end of Windows as one character."""
    rest = source.text.split("\n", error.lineno - 1)[-1]
    return len(source.text) - len(rest) + error.colno - 1


def _limit(source: Source, over: _Over) -> Diagnostic:
    """Return the problem of a value over a limit, at its place."""
    try:
        document = Document(source, None, partial(scan, source.text), [])
        return over.said(source, document.value_range(over.path).start)
    except RecursionError as error:
        return _unread(source, error)


def _unread(source: Source, error: Exception) -> Diagnostic:
    """Return the problem of a text that tomli gives up: too many brackets, or too many digits."""
    if isinstance(error, RecursionError):
        return too_deep(source, bracket_below(source.text, MAX_DEPTH - 1))
    digits = re.search(r"[0-9_]{4000,}", source.text)
    start = digits.start() if digits else 0
    return source.diagnostic(start, start + 1, "out-of-range", "this number has too many digits")


def _syntax(source: Source, error: tomli.TOMLDecodeError) -> Diagnostic:
    if known := pasted(source):
        return known
    at, text = _offset(source, error), source.text
    if at < len(text) and text[at] in BLANKS:
        message = f"a {blank_name(text[at])} stands where TOML takes plain spaces only"
        return source.diagnostic(at, at + 1, "toml-syntax", message, label="write a plain space")
    said = error.msg
    message, label = next(
        ((ours, label) for pattern, ours, label in _WORDS if re.search(pattern, said)),
        ("the text is no TOML from here on", ""),
    )
    for find in (_bare_key, _colon, _comment, _literal_quote, _leading_zero, _two_values):
        if found := find(source, at, said):
            return found
    if said.startswith("Invalid value") and (word := re.match(r"[^\s,\]}#]+", text[at:])):
        message, label = f"`{word[0]}` is no value", _value_label(word[0])
        return source.diagnostic(at, at + len(word[0]), "toml-syntax", message, label=label)
    if said.startswith("Expected newline") and (unquoted := _unquoted(text, at)):
        message, label = f"`{unquoted[0]}` is no value", _value_label(unquoted[0])
        return source.diagnostic(*unquoted.span(), "toml-syntax", message, label=label)
    if said.startswith("Illegal character") and text[at : at + 1] in ("\r", "\n"):
        message, label = "this quote is never closed", "close it; text of several lines has three quotes"
        at = max(text.rfind('"', 0, at), text.rfind("'", text.rfind("\n", 0, at) + 1, at))
    opened = _opened(text, at) if re.search("Unterminated string|Expected \"'''", said) else None
    if opened is not None:
        message, at = "this quote is never closed", opened
    if said.startswith("Unescaped"):
        at = max(0, text.rfind("\\", 0, at))
    if at >= len(text) and text:
        at = len(text.rstrip()) - 1 if text.strip() else 0
    hint = "" if label else f"the parser says: {said}"
    return source.diagnostic(at, at + 1, "toml-syntax", message, label=label, hint=hint)


def _unquoted(text: str, at: int) -> re.Match[str] | None:
    """Return the unquoted text whose first characters tomli took for a number: `2h`, `1.2.3`."""
    before = re.search(r"(?<=[\s=])[0-9A-Za-z.:+-]+\Z", text[text.rfind("\n", 0, at) + 1 : at])
    word = _WORD.match(text, at - len(before[0])) if before else None
    return word if word and not word[0].isdigit() else None


def _opened(text: str, at: int) -> int | None:
    """Return the start of the text in three quotes that contains `at`; None where there is none."""
    for quotes in ('"' * 3, "'" * 3):
        if text.count(quotes, 0, at) % 2:
            return text.rfind(quotes, 0, at)
    return None


_AT_A_KEY = (
    "Expected '='",
    "Invalid statement",
    "Invalid initial character for a key",
    "Expected ']' at the end of a table",
    "Expected ']]' at the end of an array",
)

_WHOLE = re.compile(r""" "[^"]*" | '[^']*' | (?:[^\[{"'\#:]|:(?!\s))* """, re.VERBOSE)
"""A YAML value, in quotes or of several words, that no comma ends."""


def _bare_key(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe a key without quotes that has other letters than A to Z."""
    before = re.search(r"[A-Za-z0-9_-]*\Z", source.text[max(at - 100, 0) : at])
    rest = re.match(r"[\w-]+", source.text[at:])
    if before is None or rest is None or rest[0][0].isascii() or not said.startswith(_AT_A_KEY):
        return None
    key = before[0] + rest[0]
    message = f"the key `{key}` has other letters than A to Z, and no quotes"
    return source.diagnostic(
        at - len(before[0]), at + len(rest[0]), "toml-syntax", message, label=f'write "{key}"'
    )


def _colon(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe `key: value` of YAML."""
    found = re.match(r":[ \t]*([^,}\n]*[^,}\s])?", source.text[at:])
    key = re.search(r"[\w.-]+[ \t]*\Z", source.text[max(at - 100, 0) : at])
    if found is None or key is None or not said.startswith("Expected '='"):
        return None
    value, label = found[1] or "", "write `=` for it"
    if value and _WHOLE.fullmatch(value) and not source.has_secret(at):
        is_value = re.fullmatch(r"[\d.]+|true|false|[\"'].*", value)
        label = f"write `{key[0].strip()} = {value if is_value else json.dumps(value, ensure_ascii=False)}`"
    message = "`:` is YAML, and this file is read as TOML"
    return source.diagnostic(at, at + 1, "toml-syntax", message, label=label)


def _comment(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe a comment of another language."""
    found = re.compile(r"//|/\*|--(?= )|;").match(source.text, at)
    if found is None or not said.startswith(("Invalid statement", "Expected newline", "Invalid initial")):
        return None
    message = f"`{found[0]}` begins no comment in TOML"
    return source.diagnostic(at, found.end(), "toml-syntax", message, label="begin the comment with `#`")


def _literal_quote(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe `'it\\'s'`: text in single quotes ends at the next single quote, without escapes."""
    begin = source.text.rfind("\n", 0, at) + 1
    found = re.search(r"'([^'\n]*)\\'([^'\n]*)'", source.text[begin:].split("\n", 1)[0])
    if found is None:
        return None
    text = f"{found[1]}'{found[2]}"
    is_plain = not ('"' in text or "\\" in text or source.has_secret(at))
    label = f'write "{text}"' if is_plain else "use double quotes"
    start, end = begin + found.start(), begin + found.end()
    message = "single quotes know no escapes: the text ends at the second one"
    return source.diagnostic(start, end, "toml-syntax", message, label=label)


def _leading_zero(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe `010`: no number of TOML begins with 0; `at` is behind the zero."""
    begin = re.search(r"(?<![\w.+-])[+-]?0\Z", source.text[max(at - 3, 0) : at])
    rest = re.match(r"[\d_]+(?![\w.:-])", source.text[at:])
    if begin is None or rest is None or not said.startswith(("Expected newline", "Unclosed")):
        return None
    number = begin[0] + rest[0]
    hint = f'or "{number}" for the text' + (
        f"; `0o{rest[0]}` is octal" if not set(rest[0]) & set("89_") else ""
    )
    message, label = f"`{number}` is no number of TOML: it begins with a zero", f"write {int(number)}"
    start, end = at - len(begin[0]), at + len(rest[0])
    return source.diagnostic(start, end, "toml-syntax", message, label=label, hint=hint)


def _two_values(source: Source, at: int, said: str) -> Diagnostic | None:
    """Describe two values of a list without a comma between them."""
    before = source.text[source.text.rfind("\n", 0, at) + 1 : at]
    if not said.startswith("Unclosed") or not re.match(
        r"[\"']|\w" if before.strip() else r"[\"']", source.text[at:]
    ):
        return None
    label = "separate entries with `,`"
    return source.diagnostic(at, at + 1, "toml-syntax", "a comma is missing before this", label=label)


_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def _value_label(word: str) -> str:
    if word.lower() in ("true", "false"):
        return f"write `{word.lower()}`"
    if word.lower() in _TRUTHS:
        return f'write `{_TRUTHS[word.lower()]}`, or "{word}" for the text'
    if word == "|":
        return 'write text of several lines between three quotes: `"""`'
    if word.lower() in ("null", "none", "~"):
        return "TOML has no null: delete the line"
    if word[0] in "“”„‘’‚":
        return "write plain quotes: \" or '"
    return "text needs quotes" + ("" if '"' in word or "\\" in word else f': "{word}"')


# Message of tomli → our message and the remedy.
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("Expected '=' after a key", "a `=` is missing after the key", "write `key = value`"),
    ("Invalid statement", "this begins neither a key nor a table", "write `key = value` or `[table]`"),
    ("Expected newline or end of document", "text after the end of the value", "one `key = value` a line"),
    ("Unclosed array", "a list is not closed, or a comma is missing", "close it with `]`"),
    ("Unclosed inline table", "`{` is not closed, or a comma is missing", "close it with `}`"),
    ("Unterminated string|Expected \"\\\\'", "a quote is never closed before this", "close it"),
    ("Expected '\"|Expected \"'", "a quote is never closed before this", "close it"),
    ("Illegal character", "this character cannot stand here", "inside quotes, write it as an escape"),
    (
        "Found invalid character",
        "this character cannot stand here",
        "line ends and control characters need escapes",
    ),
    (
        "Unescaped '\\\\'",
        "`\\` begins an escape that TOML does not have",
        "write `\\\\`, or use single quotes",
    ),
    ("Invalid hex value", "`\\` begins an escape with too few digits", "write `\\\\`, or use single quotes"),
    ("not a Unicode scalar", "half of a UTF-16 pair is no character", "write the character itself"),
    (
        "Invalid initial character for a key",
        "a key cannot begin with this character",
        "put the key in quotes",
    ),
    ("end of a table declaration", "`]` is missing after the table's name", "write `[table]`"),
    ("end of an array declaration", "`]]` is missing after the table's name", "write `[[table]]`"),
    ("Invalid date", "there is no such date or time", "put text in quotes"),
    ("Invalid value", "a value is missing", "write one, or delete the line"),
    ("Cannot|Duplicate", "this key stands twice", "delete one of them"),
)
