"""Variables of a job file: their definitions, and the value each one has for this compile.

Files of values (`--var-file`) are YAML, JSON or TOML: one mapping of names to values.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic, Related
from launcher.jobfile.messages.collector import At, Collector
from launcher.jobfile.messages.names import got, listing, show, suggest
from launcher.jobfile.model.job_file import BoolVar, FloatVar, IntVar, StrVar
from launcher.jobfile.text.document import Path
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import read_source
from launcher.specs.sensitive import HIDDEN, is_sensitive


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value out of such a file.

    Attributes:
        text: how it is written there.
        place: where, for problems that it causes; the place's message says so.
        origin: the same in a few words: "v.yaml:3".
    """

    value: Any
    text: str
    place: Related
    origin: str


@dataclass(slots=True)
class VarFiles:
    """The values of all such files; of two files with one name the later one counts.

    Attributes:
        problems: by file, in the order of the files.
    """

    values: dict[str, FileValue] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    is_readable: bool = True

    def undeclared(self, known: Sequence[str]) -> list[Diagnostic]:
        """Values for variables that no job file declares."""
        return [
            Diagnostic(
                file=given.place.file,
                span=given.place.span,
                code="unknown-variable",
                message=f"no variable `{name}` is declared, and this file gives it a value",
                label=suggest(name, known),
                hint=listing("declared", known),
                source_line=given.place.source_line,
            )
            for name, given in self.values.items()
            if name not in known
        ]


def read_var_files(files: Sequence[str], cwd: str) -> VarFiles:
    """Read them all; what is wrong is among the problems."""
    out = VarFiles()
    for file in files:
        source = read_source(file, os.path.abspath(os.path.join(cwd, file)))
        if isinstance(source, Diagnostic):
            out.problems.append(source)
            out.is_readable = False
            continue
        document = parse(source)
        problems = Collector(document, document.problems)
        for name, value in (document.value or {}).items():
            if value is None or isinstance(value, dict | list):
                message = f"a variable has one value, not {got(value)}"
                problems.add((name,), "wrong-type", message, label="write a text, a number or a truth value")
                continue
            out.values[name] = _file_value(name, value, problems)
        out.is_readable = out.is_readable and document.value is not None
        out.problems += problems.found
    return out


def _file_value(name: str, value: Any, problems: Collector) -> FileValue:
    place = problems.place((name,), f"variable `{name}` gets its value here", at="value")
    origin = f"{place.file}:{place.span.line}" if place.span else place.file
    if isinstance(value, str):
        return FileValue(value, value, place, origin)
    text = problems.document.raw((name,))
    # What is neither is a date of TOML: text, as it is in YAML.
    return FileValue(value if isinstance(value, bool | int | float) else text, text, place, origin)


AnyVar = IntVar | FloatVar | StrVar | BoolVar

_INT = re.compile(r"[-+]?[0-9]{1,400}\Z")
_TRUTH = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_DEFAULT = "its default"
_TARGET_DEFAULT = "the target's default"
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable is for this compile.

    Attributes:
        value: None when it has none, or a wrong one: a problem was noted.
        text: how it reads inside longer text and in `env` and `args`: as it was written.
        is_assumed: a placeholder of the right type.
        origin: where it came from, for messages: "from --var".
    """

    value: Any
    text: str
    is_assumed: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the values of variables are taken from.

    Attributes:
        given: by name, from the command line (texts) or from Python (of their type, or text).
        environ: the process environment, for `from_env`. None: it may not be read.
        placeholders: stand in for a value that nothing gives, instead of an error.
        from_files: by name, from files of values.
        defaulted: the variables whose default is the target's own: it goes before `from_env`.
    """

    given: Mapping[str, Any]
    environ: Mapping[str, str] | None
    placeholders: bool = False
    from_files: Mapping[str, FileValue] = field(default_factory=dict)
    defaulted: frozenset[str] = frozenset()


def resolve_variables(specs: Mapping[str, AnyVar], inputs: Inputs, problems: Collector) -> dict[str, Value]:
    """The value of every variable that the file declares; what is wrong goes to `problems`."""
    values = {}
    for name, spec in specs.items():
        _check_definition(name, spec, problems)
        values[name] = _value(name, spec, inputs, problems)
        problems.definitions[f"var.{name}"] = _definition(name, spec, values[name])
    return values


def reads_secret(name: str, spec: AnyVar) -> bool:
    """Whether what a variable holds should not be shown, judged by the names it goes by."""
    return is_sensitive(name) or (spec.from_env is not None and is_sensitive(spec.from_env))


def without_secrets(
    found: Iterable[Diagnostic], specs: Mapping[str, AnyVar], inputs: Inputs
) -> list[Diagnostic]:
    """Diagnostics without the values that such variables get from outside the file."""
    texts = {
        text
        for name, spec in specs.items()
        if reads_secret(name, spec)
        for text in _given(name, spec, inputs)
    }
    # A text of three letters is in half of all words, and no secret. Long ones are shown cut.
    patterns = [re.escape(text[:40]) + r"[^\s`'\"]*" * (len(text) > 40) for text in texts if len(text) > 3]
    if not patterns:
        return [*found]
    wanted = re.compile("|".join(sorted(patterns, key=len, reverse=True)))

    def hidden(text: str) -> str:
        return wanted.sub(HIDDEN, text)

    return [
        replace(
            each,
            message=hidden(each.message),
            label=hidden(each.label),
            hint=hidden(each.hint),
            related=tuple(replace(place, message=hidden(place.message)) for place in each.related),
        )
        for each in found
    ]


def _given(name: str, spec: AnyVar, inputs: Inputs) -> Iterator[str]:
    if name in inputs.given:
        yield str(inputs.given[name]).strip()
    if name in inputs.from_files:
        yield str(inputs.from_files[name].value).strip()
    if spec.from_env is not None and inputs.environ is not None and spec.from_env in inputs.environ:
        yield inputs.environ[spec.from_env].strip()


def _definition(name: str, spec: AnyVar, value: Value) -> tuple[Path, At, str]:
    """Where the value of a variable comes from, for problems that it causes elsewhere."""
    shown = "not known here" if value.is_assumed or value.value is None else _shown(name, spec, value.value)
    origin = f", from {value.origin}" if value.origin else ""
    text = f"`$<var.{name}>` is {shown}{origin}"
    if value.origin in (_DEFAULT, _TARGET_DEFAULT):
        return ("vars", name, "default"), "value", text
    return ("vars", name), "key", text


def _value(name: str, spec: AnyVar, inputs: Inputs, problems: Collector) -> Value:
    if name in inputs.given:
        return _parsed(name, spec, inputs.given[name], f"--var {name}", problems)
    if name in inputs.from_files:
        found = inputs.from_files[name]
        return _parsed(name, spec, found.value, found.origin, problems, found)
    if name in inputs.defaulted and spec.default is not None:
        return Value(spec.default, _written(name, spec, problems), origin=_TARGET_DEFAULT)
    if spec.from_env is not None and inputs.environ is None:
        message = f"variable `{name}` may not be read from the environment's {spec.from_env} here"
        hint = f"give it with `--var {name}=…`, or leave out --no-env-vars"
        problems.add(("vars", name, "from_env"), "environment-refused", message, hint=hint)
        return Value(None, "")
    if spec.from_env is not None and inputs.environ is not None and spec.from_env in inputs.environ:
        return _parsed(
            name, spec, inputs.environ[spec.from_env], f"the environment's {spec.from_env}", problems
        )
    if spec.default is not None:
        return Value(spec.default, _written(name, spec, problems), origin=_DEFAULT)
    if inputs.placeholders:
        return Value(*_placeholder(name, spec), is_assumed=True)
    env = f", or set {spec.from_env} in the environment" if spec.from_env else ""
    problems.add(
        ("vars", name),
        "unset-variable",
        f"variable `{name}` has no value",
        at="key",
        label=f"give it with `--var {name}=…`",
        hint=f"or add a `default`{env}",
    )
    return Value(None, "")


def _written(name: str, spec: AnyVar, problems: Collector) -> str:
    """The default as its text in the file: 0.10 stays "0.10"."""
    if isinstance(spec, StrVar):
        return spec.default or ""
    return problems.document.raw(("vars", name, "default"))


def _parsed(
    name: str, spec: AnyVar, given: Any, origin: str, problems: Collector, file: FileValue | None = None
) -> Value:
    """A value from outside the job file, by the variable's type; `file` is where it stands, if in one."""
    related = (file.place,) if file is not None else ()
    value = _convert(spec, given)
    if value is None:
        kind = _KINDS[spec.type]
        label = "write true or false" if spec.type == "bool" else ""
        message = f"variable `{name}` is {_shown(name, spec, given)} from {origin}, and must be {kind}"
        problems.add(("vars", name), "wrong-type", message, at="key", label=label, related=related)
        return Value(None, "")
    wrong = _outside(spec, value)
    if wrong:
        message = f"variable `{name}` is {_shown(name, spec, value)} from {origin}, {wrong}"
        code = "out-of-range" if wrong.startswith(("less", "more")) else "unknown-variant"
        label = suggest(str(value), map(str, _choices(spec)))
        hint = listing("choices", map(str, _choices(spec)))
        problems.add(("vars", name), code, message, at="key", label=label, hint=hint, related=related)
        return Value(None, "")
    if file is not None and not isinstance(value, bool | str):
        return Value(value, file.text.strip(), origin=origin)
    text = given.strip() if isinstance(given, str) and not isinstance(value, bool | str) else show_text(value)
    return Value(value, text, origin=origin)


def _shown(name: str, spec: AnyVar, value: Any) -> str:
    return HIDDEN if reads_secret(name, spec) else show(value)


def show_text(value: Any) -> str:
    """A value inside text: true and false as in YAML, numbers and text as Python writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert(spec: AnyVar, given: Any) -> Any:
    """`given` by the variable's type; None when it cannot be read so."""
    if isinstance(given, str):
        return _from_text(spec.type, given)
    if isinstance(given, bool):
        return given if spec.type == "bool" else None
    if isinstance(given, int) and spec.type == "float":
        return float(given) if abs(given) < 10**300 else None
    if isinstance(given, int):
        return given if spec.type == "int" else None
    is_number = isinstance(given, float) and math.isfinite(given)
    return given if is_number and spec.type == "float" else None


def _from_text(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    text = text.strip()
    if kind == "bool":
        return _TRUTH.get(text.lower())
    if kind == "int":
        return int(text) if _INT.match(text) else None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _outside(spec: AnyVar, value: Any) -> str:
    """Why the variable does not allow `value`; "" when it does."""
    if isinstance(spec, IntVar | FloatVar):
        if spec.min is not None and value < spec.min:
            return f"less than {spec.min}"
        if spec.max is not None and value > spec.max:
            return f"more than {spec.max}"
    choices = _choices(spec)
    return "which is none of its choices" if choices and value not in choices else ""


def _choices(spec: AnyVar) -> Sequence[Any]:
    return () if isinstance(spec, BoolVar) else spec.choices or ()


def _check_definition(name: str, spec: AnyVar, problems: Collector) -> None:
    """What a definition says twice must agree."""
    path: Path = ("vars", name)
    if _is_empty_range(spec):
        message = f"variable `{name}` allows nothing: `min` is more than `max`"
        problems.add((*path, "min"), "constraint", message)
        return
    if not isinstance(spec, BoolVar) and spec.choices == []:
        problems.add(
            (*path, "choices"), "constraint", f"variable `{name}` allows nothing: `choices` is empty"
        )
        return
    for index, choice in enumerate(_choices(spec)):
        wrong = _outside(spec.model_copy(update={"choices": None}), choice)
        if wrong:
            message = f"choice {show(choice)} of variable `{name}` is {wrong}"
            problems.add((*path, "choices", index), "constraint", message)
    wrong = _outside(spec, spec.default) if spec.default is not None else ""
    if wrong:
        code = "out-of-range" if wrong.startswith(("less", "more")) else "unknown-variant"
        joined = wrong if code == "out-of-range" else "none of its choices"
        message = f"the default of variable `{name}` is {show(spec.default)}, {joined}"
        label = suggest(str(spec.default), map(str, _choices(spec)))
        problems.add((*path, "default"), code, message, label=label)


def _placeholder(name: str, spec: AnyVar) -> tuple[Any, str]:
    """A value of the right type that the definition allows, with its text."""
    if isinstance(spec, BoolVar):
        return False, "false"
    if spec.choices:
        return spec.choices[0], show_text(spec.choices[0])
    if isinstance(spec, StrVar):
        return name, name
    least = spec.min if spec.min is not None else 1
    value = min(least, spec.max) if spec.max is not None else least
    return value, show_text(value)


def _is_empty_range(spec: AnyVar) -> bool:
    return (
        isinstance(spec, IntVar | FloatVar)
        and spec.min is not None
        and spec.max is not None
        and spec.min > spec.max
    )
