"""Word YAML errors: faulty syntax, and valid YAML that is wrong in a job file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.text.document import Source, blank_after_colon, blank_name, pasted

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError

_HEADER = re.compile(r"(?:^|[\s:-])[|>][-+0-9]{0,2}(?:\s+#.*)?\s*$")
"""The end of a line that begins a block of text."""


class _Trouble(NamedTuple):
    """The parser's error: its position (`at`), the beginning of the construct (`began`), and its message."""

    source: Source
    at: int
    began: int | None
    said: str

    @property
    def char(self) -> str:
        return self.source.text[self.at : self.at + 1]

    @property
    def first(self) -> str:
        """The character that the construct begins with."""
        start = self.at if self.began is None else self.began
        return self.source.text[start : start + 1]

    @property
    def line_before(self) -> str:
        """The text of the line up to the place."""
        return self.source.text[self.source.text.rfind("\n", 0, self.at) + 1 : self.at]

    def says(self, start: int, end: int, message: str, label: str = "", hint: str = "") -> Diagnostic:
        last = len(self.source.text)
        start = min(start, max(0, last - 1))
        return self.source.diagnostic(
            start, max(min(end, last), start + 1), "yaml-syntax", message, label=label, hint=hint
        )

    def here(self, message: str, label: str = "", hint: str = "") -> Diagnostic:
        return self.says(self.at, self.at + 1, message, label, hint)


def describe_syntax(source: Source, error: MarkedYAMLError) -> Diagnostic:
    """Return the diagnostic for the parser's error."""
    known = pasted(source) or _json_comment(source)
    if known is not None:
        return known
    mark = error.problem_mark or error.context_mark
    began = error.context_mark.index if error.context_mark else None
    trouble = _Trouble(source, mark.index if mark else 0, began, str(error.problem or error.context or ""))
    if assigned := _assigned(trouble):
        return assigned
    for pattern, describe in _KNOWN:
        if re.search(pattern, trouble.said):
            found = describe(trouble)
            if found:
                return found
    said = re.sub(r"\s+", " ", trouble.said).strip()
    hint = f"the parser says: {said}" if said else ""
    return trouble.here("the text is no YAML from here on", hint=hint)


_JSON_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*(?:"|\\?$)|(//[^\n]*|/\*)', re.MULTILINE)


def _json_comment(source: Source) -> Diagnostic | None:
    """The first comment of JavaScript in a text that begins like JSON."""
    if not source.text.lstrip().startswith(("{", "//", "/*")):
        return None
    found = next((each for each in _JSON_COMMENT.finditer(source.text) if each[1]), None)
    if found is None:
        return None
    message = f"`{found[1][:2]}` begins no comment in YAML, and JSON has none"
    label = "begin each line of the comment with `#`"
    return source.diagnostic(*found.span(1), "yaml-syntax", message, label=label)


_ASSIGNMENT = re.compile(r"( *)([\w.-]+) = (.+)")


def _assigned(trouble: _Trouble) -> Diagnostic | None:
    """Find `key = value` of TOML in the line of the error, or in the first line of its text."""
    source = trouble.source
    begin = trouble.at if trouble.began is None else trouble.began
    for number in dict.fromkeys(source.position(at)[0] for at in (begin, trouble.at)):
        while number > 1 and _ASSIGNMENT.fullmatch(source.line(number - 1)):
            number -= 1
        if found := _ASSIGNMENT.fullmatch(source.line(number)):
            start = source.start_of(number) + found.start(2)
            message = f"`{found[2]} = …` is TOML, and this file is read as YAML"
            value = "…" if source.has_secret(start) else found[3]
            label = f"write `{found[2]}: {value}`"
            return trouble.says(start, start + len(found[0].strip()), message, label)
    return None


def _quoted(trouble: _Trouble, text: str) -> str:
    """Return ": " and the text in the quotes that it lacks; "" when it has both, or may be secret."""
    if trouble.source.has_secret(trouble.at) or ("'" in text and ('"' in text or "\\" in text)):
        return ""
    return f": '{text}'" if '"' in text or "\\" in text else f': "{text}"'


_IN_BLOCK = re.compile(r" *(?:- +)*(?:[\w.-]+: +)?")


def _whole_value(trouble: _Trouble, at: int) -> str:
    """Return the value from an offset to the end of its line; within brackets, the word at the offset."""
    before = trouble.source.text[trouble.source.text.rfind("\n", 0, at) + 1 : at]
    line = trouble.source.line(trouble.source.position(at)[0])
    if not _IN_BLOCK.fullmatch(before):
        return _word(trouble.source.text, at)
    return re.sub(r"\s+#.*", "", line[len(before) :]).rstrip()


def _as_lines(trouble: _Trouble, start: int) -> str:
    """Return a hint: the value of a key as a text of several lines."""
    key = re.match(r" *(?:- +)?([\w.-]+): ", trouble.source.line(trouble.source.position(start)[0]))
    return f"or write `{key[1]}: |`, and the text on the line below, indented" if key else ""


def _stray_character(trouble: _Trouble) -> Diagnostic | None:
    at, text = trouble.at, trouble.source.text
    while at < len(text) and text[at] == " ":
        at += 1
    char = text[at : at + 1]
    if char == "\t":
        return trouble.says(at, at + 1, "YAML does not take a tab here", "use spaces")
    if char in "@`%|>":
        word = _whole_value(trouble, at)
        shown = "a backtick" if char == "`" else f"`{char}`"
        message = f"a value without quotes cannot begin with {shown}"
        label = f"put it in quotes{_quoted(trouble, word)}"
        return trouble.says(at, at + len(word), message, label, _as_lines(trouble, at))
    return None


def _unclosed_quote(trouble: _Trouble) -> Diagnostic | None:
    if trouble.began is None:
        return None
    label = "close it, or double it to mean the character itself" if trouble.first == "'" else "close it"
    return trouble.says(trouble.began, trouble.began + 1, "this quote is never closed", label)


_WITH_BRACES = re.compile(r"\s*(?:[\w.-]+: +)?([^{]*(?:\{\{[^}\n]*\}\}|\{[^}\n]*\}?)[^,\]}\n]*)")
"""An entry in brackets that holds `${…}` or `${{ … }}`, behind its key."""


def _flow(trouble: _Trouble) -> Diagnostic | None:
    """Describe a list or mapping in brackets that is unclosed, or holds text that needs quotes."""
    text, at = trouble.source.text, trouble.at
    if text[at : at + 1] == "{" and text[at - 1 : at] == "$":
        start = max(text.rfind(sign, 0, at - 1) for sign in "[,{\n") + 1
        entry = _WITH_BRACES.match(text[start : at + 200])
        label = f"put the text in quotes{_quoted(trouble, entry[1].rstrip()) if entry else ''}"
        return trouble.says(at - 1, at + 1, "`${` needs quotes inside brackets", label)
    if text.startswith("{{", at):
        hint = "references are written `$<var.NAME>`; text with braces needs quotes"
        return trouble.says(at, at + 2, "`{{` begins a mapping in YAML, no template", hint=hint)
    if trouble.began is None:
        return None
    bracket = trouble.first
    later_line = "\n" in text[trouble.began : at]
    if "stream end" in trouble.said or (later_line and "':'" in trouble.said):
        label = f"close it with `{']' if bracket == '[' else '}'}`"
        return trouble.says(trouble.began, trouble.began + 1, f"`{bracket}` is never closed", label)
    if "':'" in trouble.said:
        return trouble.here("a second `:` in one entry", "put text with a colon in quotes")
    return trouble.here(
        "a comma is missing before this", "separate entries with `,`, or put the text in quotes"
    )


def _mapping_in_value(trouble: _Trouble) -> Diagnostic | None:
    """Describe `: ` within a value: text that needs quotes, or a line with the wrong indentation."""
    before = trouble.line_before
    if re.search(r"[^\s:]:\s+(?=\S)", before):
        start = trouble.at - len(before) + _IN_BLOCK.match(before).end()  # type: ignore[union-attr]
        label = f"put text with `: ` in quotes{_quoted(trouble, _whole_value(trouble, start))}"
        return trouble.here("a second `: ` on one line", label, _as_lines(trouble, start))
    start = trouble.at - len(before.lstrip(" "))
    if unmarked := _unmarked(trouble, start):
        return unmarked
    label = _indented_like(trouble, start) or "is it indented deeper than its neighbours?"
    return trouble.says(start, trouble.at, "the indentation of this line fits no line above", label)


_KEY = re.compile(r"( *)(?:- )?([\w.-]+):")


def _indented_like(trouble: _Trouble, start: int) -> str:
    """Return a label: the indentation of the key in the line above, or of the key around it."""
    number, column = trouble.source.position(start)
    above = (_KEY.match(trouble.source.line(each)) for each in range(number - 1, 0, -1))
    keys = [(len(key[1]), key[2]) for key in above if key]
    if not keys:
        return ""
    spaces, name = keys[0]
    around = next((key for key in keys if key[0] < column - 1), None)
    if spaces < column - 1 or around is None:
        where = f"indent it by {spaces} spaces" if spaces else "begin it at the first column"
        return f"{where}, like `{name}` above"
    return f"indent it by {spaces} spaces, like `{name}` above, or by {around[0]}, like `{around[1]}`"


_OPENED = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[\w.-]+):(?: +[^|>\s#].*)?")


def _unmarked(trouble: _Trouble, start: int) -> Diagnostic | None:
    """Describe a script of several lines below a key that lacks a block mark."""
    source = trouble.source
    number, column = source.position(start)
    least, lines = column - 1, 0
    for above in range(number - 1, 0, -1):
        line = source.line(above)
        indent = len(line) - len(line.lstrip(" "))
        found = _OPENED.fullmatch(line.rstrip())
        if found and len(found["indent"]) < least and (lines or found["key"] == "run"):
            begin = source.start_of(above) + found.start("key")
            message = f"the lines below `{found['key']}` are read as YAML, not as a text"
            label = f"write `{found['key']}: |`"
            hint = "and begin the text on the line below" if source.line(above).rstrip()[-1:] != ":" else ""
            return trouble.says(begin, begin + len(found["key"]), message, label, hint)
        if line.strip():
            lines, least = lines + 1, min(least, indent)
        if found:
            return None
    return None


def _no_colon(trouble: _Trouble) -> Diagnostic | None:
    if trouble.began is None:
        return None
    source = trouble.source
    line = source.line(source.position(trouble.began)[0])
    end = trouble.began + len(source.text[trouble.began : trouble.at].split("\n", 1)[0].rstrip())
    blank = blank_after_colon(line)
    if blank:
        at = trouble.source.text.index(f":{blank}", trouble.began) + 1
        message = f"a {blank_name(blank)} after the colon makes this no `key: value`"
        return trouble.says(at, at + 1, message, "write a plain space")
    if wide := re.match(r"\s*(?:- )?[\w.-]+([：﹕∶])", line):
        at = source.text.index(wide[1], trouble.began)
        return trouble.says(at, at + 1, f"`{wide[1]}` is no colon of YAML", "write `:`")
    if dedented := _dedented(trouble, trouble.began):
        return dedented
    tight = re.match(r"\s*(?:- )?([\w.-]+):\S", line)
    label = f"write a space after `{tight[1]}:`" if tight else "a colon is missing"
    if not tight and (unmarked := _unmarked(trouble, trouble.began)):
        return unmarked
    return trouble.says(trouble.began, end, "this line is no `key: value`", label)


def _dedented(trouble: _Trouble, start: int) -> Diagnostic | None:
    """Describe a line that is meant to continue the text (`|`, `>`) above, but is indented too little."""
    source = trouble.source
    number, column = source.position(start)
    written = source.line(number).strip()
    indent = _text_above(source, number, column)
    if indent is None or " " not in written:  # a single word is probably a key whose colon is missing
        return None
    message = "this line is indented less than the text that it belongs to"
    label = f"indent it by {indent} spaces, like the text above"
    return trouble.says(start, start + len(written), message, label)


def _text_above(source: Source, number: int, column: int) -> int | None:
    """The indentation of the text that ends above a line; None where no text does."""
    inside: int | None = None
    for line in (source.line(above) for above in range(number - 1, 0, -1)):
        indent = len(line) - len(line.lstrip(" "))
        if _HEADER.search(line):
            return inside
        if line.strip():
            if indent < column - 1:
                return None
            inside = indent
    return None


def _block(trouble: _Trouble) -> Diagnostic | None:
    """Describe a part that does not belong to the block mapping or list before it."""
    if "mapping start" in trouble.said or "sequence start" in trouble.said:
        message = "the indentation of this line fits no line above"
        label = _indented_like(trouble, trouble.at) or "indent it like the keys that it belongs to"
        return trouble.here(message, label)
    if "'-'" in trouble.said:
        return trouble.here("a list item among the keys of a mapping", "indent it below the key of its list")
    if "'?'" in trouble.said or "<key>" in trouble.said:
        return trouble.here("a key among the items of a list", "is its indentation off, or a `-` missing?")
    dedented = _dedented(trouble, trouble.at) if not trouble.line_before.strip() else None
    if dedented is not None:
        return dedented
    before = trouble.line_before
    start = trouble.at - len(before) + _IN_BLOCK.match(before).end()  # type: ignore[union-attr]
    value = _whole_value(trouble, start)
    if before.rstrip().endswith(('"', "'")):
        value = value[1:-1] if value[:1] == value[-1:] and value[:1] in "\"'" else value
        message = "text after a closing quote"
    else:
        message = f"`{trouble.char.strip() or '…'}` cannot stand here"
    label = f"put the whole value in quotes{_quoted(trouble, value)}"
    return trouble.here(message, label, _as_lines(trouble, start))


def _escape(trouble: _Trouble) -> Diagnostic | None:
    start = trouble.source.text.rfind("\\", 0, trouble.at + 1)
    if start < 0:
        return None
    shown = trouble.source.text[start : start + 2]
    label = f"write `\\{shown}`, or use single quotes"
    return trouble.says(start, start + 2, f"`{shown}` is no escape in double quotes", label)


def _anchor(trouble: _Trouble) -> Diagnostic | None:
    if trouble.began is None:
        return None
    what = "an alias" if trouble.first == "*" else "an anchor"
    message = f"`{trouble.first}` begins {what}, and its name is missing"
    return trouble.says(trouble.began, trouble.began + 1, message, "put text in quotes")


def _tag(trouble: _Trouble) -> Diagnostic | None:
    start = trouble.at if trouble.began is None else trouble.began
    word = _word(trouble.source.text, start)
    label = "put text with a leading `!` in quotes"
    return trouble.says(start, start + len(word), f"`{word}` is read as a tag", label)


def _block_scalar(trouble: _Trouble) -> Diagnostic | None:
    start = trouble.at if trouble.began is None else trouble.began
    message = f"after `{trouble.first}` the text begins on the next line"
    return trouble.says(start, trouble.at + 1, message, "or put it in quotes")


def _stray_mark(trouble: _Trouble) -> Diagnostic | None:
    char = trouble.char
    if char and char in "]},":
        return trouble.here(f"`{char}` closes or separates nothing here", "put text with it in quotes")
    if "stream end" in trouble.said or "document end" in trouble.said:
        return trouble.here("the text ends before its brackets are closed", "close every `[` and `{`")
    if char and char in "-:?":
        message = f"`{char}` stands where a value should be"
        return trouble.here(message, "write the value, or put it in quotes")
    return None


_LIST_IN_LINE = "begin it on a line of its own, or write it in brackets: [a, b]"
_KEY_IN_LINE = "`?` begins a key, and none can stand here", "put text with a leading `?` in quotes"


def _after_the_end(trouble: _Trouble) -> Diagnostic | None:
    start = trouble.source.text.rfind("\n%", 0, trouble.at) + 1
    if start > 0:
        return trouble.says(start, start + 1, "a line cannot begin with `%`", "put the key in quotes")
    return trouble.here("the document has ended above", "delete `---` and `...` lines")


def _word(text: str, at: int) -> str:
    found = re.match(r"[^\s,\]}]+", text[at : at + 60])
    return found[0] if found else text[at : at + 1]


_KNOWN: tuple[tuple[str, Callable[[_Trouble], Diagnostic | None]], ...] = (
    ("cannot start any token", _stray_character),
    ("unexpected end of stream|unexpected document separator", _unclosed_quote),
    ("expected ',' or", _flow),
    ("mapping values are not allowed", _mapping_in_value),
    ("could not find expected ':'", _no_colon),
    ("expected <block end>", _block),
    ("unknown escape character|escape sequence of", _escape),
    ("expected alphabetic or numeric character", _anchor),
    ("tag handle|expected '>'|expected '!'|expected URI|URI escape|expected ' '", _tag),
    ("chomping or indentation|indentation indicator|expected a comment or a line break", _block_scalar),
    ("expected the node content", _stray_mark),
    (
        "sequence entries are not allowed",
        lambda trouble: trouble.here("a list cannot begin here", _LIST_IN_LINE),
    ),
    ("mapping keys are not allowed", lambda trouble: trouble.here(*_KEY_IN_LINE)),
    ("<document start>|document end marker", _after_the_end),
)


def describe_key(source: Source, start: int, end: int, key: Any) -> Diagnostic:
    """Describe a key that is no text: a number, a word like `true`, or a collection (`{{ x }}`)."""
    if source.text.startswith("{{", max(0, start - 1)) and source.text[start : start + 1] == "{":
        hint = "references are written `$<var.NAME>`; text with braces needs quotes"
        message = "`{{` begins a mapping in YAML, no template"
        return source.diagnostic(max(0, start - 1), start + 1, "yaml-syntax", message, hint=hint)
    shown, end = source.text[start:end].strip(), max(end, start + 1)
    if isinstance(key, dict | list):
        message = "a mapping or list cannot be a key"
        return source.diagnostic(start, end, "yaml-syntax", message, label="write a name")
    kind = "a truth value" if isinstance(key, bool) else "nothing" if key is None else "a number"
    label = f'write `"{shown}"`' if shown else "write a name before the colon"
    message = f"keys are text, and `{shown}` is {kind}" if shown else "the key is missing"
    return source.diagnostic(start, end, "wrong-type", message, label=label)
