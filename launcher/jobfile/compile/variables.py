"""Variables of a job file: their definitions, and their values for this compile.

Files of values (`--var-file`) are YAML, JSON or TOML: one mapping of names to values.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher import looks
from launcher.dataclass import dataclass, field, replace
from launcher.jobfile.diagnostic import Diagnostic, Related
from launcher.jobfile.messages.collector import At, Collector, got, listing, show, suggest
from launcher.jobfile.model.job_file import BoolVar, FloatVar, IntVar, StrVar
from launcher.jobfile.text.document import Path, read_source
from launcher.jobfile.text.parse import parse_values
from launcher.looks import not_repeatable
from launcher.specs.runopts import TRUTHS
from launcher.specs.secret import HIDDEN, hide, is_sensitive


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value from a file of values.

    Attributes:
        text: the value as written there.
        place: its place, shown beside problems that it causes.
        origin: the place in short: "v.yaml:3".
    """

    value: Any
    text: str
    place: Related
    origin: str


@dataclass(slots=True)
class VarFiles:
    """The values of all files of values; where two files set a name, the later file counts.

    Attributes:
        problems: the problems of each file, in the order of the files.
    """

    values: dict[str, FileValue] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)


def read_var_files(files: Sequence[str], cwd: str) -> VarFiles:
    """Read files of values; faults are among the `problems` of the result."""
    out = VarFiles()
    for file in files:
        source = read_source(file, os.path.abspath(os.path.join(cwd, file)))
        if isinstance(source, Diagnostic):
            out.problems.append(source)
            continue
        document = parse_values(source)
        problems = Collector(document, document.problems)
        for name, value in (document.value or {}).items():
            if value is None or isinstance(value, dict | list):
                message = f"a variable has one value, not {got(value)}"
                problems.add((name,), "wrong-type", message, label="write a text, a number or a truth value")
            else:
                place = problems.place((name,), f"variable `{name}` gets its value here", at="value")
                origin = f"{place.file}:{place.span.line}" if place.span else place.file
                text = value if isinstance(value, str) else problems.document.raw((name,))
                # Any other value is a date of TOML, which becomes text, as in YAML.
                given = value if isinstance(value, bool | int | float) else text
                out.values[name] = FileValue(given, text, place, origin)
        out.problems += problems.found
    return out


class _Environ(Mapping[str, str]):
    """The process environment. A read of a variable is noted as something that the result depends on."""

    def __getitem__(self, name: str) -> str:
        value = looks.variable(name)
        if value is None:
            raise KeyError(name)
        if hide(value, name) != value:
            not_repeatable()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


ENVIRON = _Environ()

AnyVar = IntVar | FloatVar | StrVar | BoolVar

_INT = re.compile(r"[-+]?[0-9]{1,400}\Z")
_DEFAULT = "its default"
_TARGET_DEFAULT = "the target's default"
KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
_NO_CHOICE = "none of its choices"


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a variable for this compile.

    Attributes:
        value: None when it is missing or wrong, which was noted.
        text: as written, for use inside longer text and in `env` and `args`.
        is_assumed: a placeholder of the right type.
        origin: where it came from, for messages: "from --var".
    """

    value: Any
    text: str
    is_assumed: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The sources of the values of variables.

    Attributes:
        given: name → value from the command line (text) or from Python (of its type, or text).
        environ: the process environment, for `from_env`. None: it may not be read.
        placeholders: whether placeholders replace missing values, instead of an error.
        from_files: name → value from files of values.
        defaulted: the variables whose default is the target's own, which wins over `from_env`.
    """

    given: Mapping[str, Any]
    environ: Mapping[str, str] | None
    placeholders: bool = False
    from_files: Mapping[str, FileValue] = field(default_factory=dict)
    defaulted: frozenset[str] = frozenset()


def resolve_variables(specs: Mapping[str, AnyVar], inputs: Inputs, problems: Collector) -> dict[str, Value]:
    """Return the value of every variable that the file declares; faults go to `problems`."""
    values = {}
    for name, spec in specs.items():
        variable = _Variable(name, spec, problems)
        variable.check()
        values[name] = variable.value(inputs)
        problems.definitions[f"var.{name}"] = variable.definition(values[name])
    return values


def reads_secret(name: str, spec: AnyVar) -> bool:
    """Return whether the value of a variable should be hidden, judged by the names it has."""
    return is_sensitive(name) or (spec.from_env is not None and is_sensitive(spec.from_env))


def without_secrets(
    found: Iterable[Diagnostic], specs: Mapping[str, AnyVar], inputs: Inputs
) -> list[Diagnostic]:
    """Return diagnostics without the values that sensitive variables get from outside the file."""
    texts: set[str] = set()
    for name, spec in specs.items():
        if reads_secret(name, spec):
            file = inputs.from_files.get(name)
            outside = (
                inputs.given.get(name),
                file and file.value,
                (inputs.environ or {}).get(spec.from_env or ""),
            )
            texts |= {str(each).strip() for each in outside if each is not None}
    # A text of three letters is part of many words, and no secret. Messages cut long values.
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


def show_text(value: Any) -> str:
    """Return a value as text: true and false as in YAML, numbers and text as Python writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(slots=True)
class _Variable:
    """One variable that a file declares."""

    name: str
    spec: AnyVar
    problems: Collector

    @property
    def choices(self) -> Sequence[Any]:
        return () if isinstance(self.spec, BoolVar) else self.spec.choices or ()

    @property
    def limits(self) -> tuple[float | None, float | None]:
        return (self.spec.min, self.spec.max) if isinstance(self.spec, IntVar | FloatVar) else (None, None)

    def definition(self, value: Value) -> tuple[Path, At, str]:
        """Return the origin of a variable's value, for problems that it causes elsewhere."""
        is_known = not value.is_assumed and value.value is not None
        origin = f", from {value.origin}" if value.origin else ""
        text = f"`$<var.{self.name}>` is {self._shown(value.value) if is_known else 'not known here'}{origin}"
        if value.origin in (_DEFAULT, _TARGET_DEFAULT):
            return ("vars", self.name, "default"), "value", text
        return ("vars", self.name), "key", text

    def value(self, inputs: Inputs) -> Value:
        name, spec = self.name, self.spec
        if name in inputs.given:
            return self._parsed(inputs.given[name], f"--var {name}")
        if name in inputs.from_files:
            found = inputs.from_files[name]
            return self._parsed(found.value, found.origin, found)
        if name in inputs.defaulted and spec.default is not None:
            return Value(spec.default, self._default_text(), origin=_TARGET_DEFAULT)
        if spec.from_env is not None and inputs.environ is None:
            message = f"variable `{name}` may not be read from the environment's {spec.from_env} here"
            hint = f"give it with `--var {name}=…`, or leave out --no-env-vars"
            self.problems.add(("vars", name, "from_env"), "environment-refused", message, hint=hint)
            return Value(None, "")
        if spec.from_env is not None and spec.from_env in (inputs.environ or {}):
            return self._parsed((inputs.environ or {})[spec.from_env], f"the environment's {spec.from_env}")
        if spec.default is not None:
            return Value(spec.default, self._default_text(), origin=_DEFAULT)
        if inputs.placeholders:
            value = self._placeholder()
            return Value(value, show_text(value), is_assumed=True)
        env = f", or set {spec.from_env} in the environment" if spec.from_env else ""
        label, hint = f"give it with `--var {name}=…`", f"or add a `default`{env}"
        message = f"variable `{name}` has no value"
        path: Path = ("vars", name)
        self.problems.add(path, "unset-variable", message, at="key", label=label, hint=hint, reads=[path])
        return Value(None, "")

    def _default_text(self) -> str:
        """Return the default's text in the file: 0.10 stays "0.10"."""
        if isinstance(self.spec, StrVar):
            return self.spec.default or ""
        return self.problems.document.raw(("vars", self.name, "default"))

    def _parsed(self, given: Any, origin: str, file: FileValue | None = None) -> Value:
        """Return a value from outside the job file, read by the variable's type. `file` has its place."""
        related = (file.place,) if file is not None else ()
        path = ("vars", self.name)
        value = _convert(self.spec.type, given)
        if value is None:
            kind = KINDS[self.spec.type]
            label = "write true or false" if self.spec.type == "bool" else ""
            message = f"variable `{self.name}` is {self._shown(given)} from {origin}, and must be {kind}"
            self.problems.add(path, "wrong-type", message, at="key", label=label, related=related)
            return Value(None, "")
        code, wrong = self._fault(value)
        if wrong:
            which = "which is " if wrong == _NO_CHOICE else ""
            message = f"variable `{self.name}` is {self._shown(value)} from {origin}, {which}{wrong}"
            label = suggest(str(value), map(str, self.choices))
            hint = listing("choices", map(str, self.choices))
            self.problems.add(path, code, message, at="key", label=label, hint=hint, related=related)
            return Value(None, "")
        written = file.text if file is not None else given
        is_as_written = isinstance(written, str) and not isinstance(value, bool | str)
        return Value(value, written.strip() if is_as_written else show_text(value), origin=origin)

    def _shown(self, value: Any) -> str:
        return HIDDEN if reads_secret(self.name, self.spec) else show(value)

    def _fault(self, value: Any) -> tuple[str, str]:
        """Return code and message for a value that the variable does not allow, else ("", "")."""
        least, most = self.limits
        if least is not None and value < least:
            return "out-of-range", f"less than {least}"
        if most is not None and value > most:
            return "out-of-range", f"more than {most}"
        return ("unknown-variant", _NO_CHOICE) if self.choices and value not in self.choices else ("", "")

    def check(self) -> None:
        """Note contradictions within a definition."""
        path: Path = ("vars", self.name)
        least, most = self.limits
        nothing = f"variable `{self.name}` allows nothing"
        if least is not None and most is not None and least > most:
            message = f"{nothing}: `min` is more than `max`"
            self.problems.add((*path, "min"), "constraint", message)
            return
        if not isinstance(self.spec, BoolVar) and self.spec.choices == []:
            self.problems.add((*path, "choices"), "constraint", f"{nothing}: `choices` is empty")
            return
        for index, choice in enumerate(self.choices):
            _, wrong = self._fault(choice)
            if wrong:
                message = f"choice {show(choice)} of variable `{self.name}` is {wrong}"
                self.problems.add((*path, "choices", index), "constraint", message)
        default = self.spec.default
        code, wrong = self._fault(default) if default is not None else ("", "")
        if wrong:
            message = f"the default of variable `{self.name}` is {show(default)}, {wrong}"
            label = suggest(str(default), map(str, self.choices))
            reads = [(*path, "choices")]
            self.problems.add((*path, "default"), code, message, label=label, reads=reads)

    def _placeholder(self) -> Any:
        """A value of the right type that the definition allows."""
        if isinstance(self.spec, BoolVar):
            return False
        if self.spec.choices:
            return self.spec.choices[0]
        if isinstance(self.spec, StrVar):
            return self.name
        least, most = self.limits
        value = least if least is not None else 1
        return min(value, most) if most is not None else value


def _convert(kind: str, given: Any) -> Any:
    """Return `given` read as the type of a variable; None when that is impossible."""
    if isinstance(given, str):
        return given if kind == "str" else _from_text(kind, given.strip())
    if isinstance(given, bool):
        return given if kind == "bool" else None
    if isinstance(given, int) and kind == "float":
        return float(given) if abs(given) < 10**300 else None
    if isinstance(given, int):
        return given if kind == "int" else None
    is_number = isinstance(given, float) and math.isfinite(given)
    return given if is_number and kind == "float" else None


def _from_text(kind: str, text: str) -> Any:
    if kind == "bool":
        return TRUTHS.get(text.lower())
    if kind == "int":
        return int(text) if _INT.match(text) else None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
