"""Hypothesis strategies for job files in every way that people write them."""

import json
from typing import Any

from hypothesis import strategies as st

WORDS = [
    "a", "x y", "it's", 'say "hi"', "3", "3.10", "true", "",
    "#no",
    "a: b",
    "- x",
    "$<app_id>",
    "é",
    "back\\slash",
]  # fmt: skip
PLAIN = ("x y", "it's")
TEXT = st.sampled_from(WORDS)
SCALAR = TEXT | st.integers(-5, 99) | st.booleans() | st.sampled_from([0.5, 1.0])
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT.filter(bool), inner, max_size=3),
    max_leaves=6,
)
MOUNT = st.fixed_dictionaries({"dst": TEXT, "type": st.just("bind"), "src": TEXT})
ROLE = st.fixed_dictionaries(
    {"num_replicas": st.integers(1, 9), "entrypoint": TEXT},
    optional={
        "args": st.lists(SCALAR, max_size=4),
        "env": st.dictionaries(st.sampled_from("BAC"), SCALAR, max_size=3),
        "mounts": st.lists(MOUNT, max_size=2),
        "resource": st.fixed_dictionaries({"memory": TEXT, "cpu": st.integers(1, 3)}),
        "metadata": st.dictionaries(TEXT.filter(bool), VALUE, max_size=2),
        "x-note": VALUE,
    },
)
VAR = st.fixed_dictionaries({"default": SCALAR, "type": TEXT})
JOB = st.fixed_dictionaries(
    {"roles": st.dictionaries(st.sampled_from(["b", "a", "c-1"]), ROLE, min_size=1, max_size=3)},
    optional={
        "name": TEXT,
        "version": st.just(1),
        "vars": st.dictionaries(
            st.sampled_from("nm"), st.fixed_dictionaries({"default": SCALAR, "type": TEXT})
        ),
        "timeout": TEXT,
        "lifecycle": st.fixed_dictionaries({"protect": st.booleans(), "on_failed": TEXT}),
        "x-anchors": VALUE,
        "targets": st.dictionaries(st.sampled_from(["dev", "prod"]), st.fixed_dictionaries({"vars": VALUE})),
    },
).flatmap(lambda job: st.permutations(list(job)).map(lambda keys: {key: job[key] for key in keys}))


@st.composite
def yaml_files(draw: st.DrawFn) -> str:
    """A job file in YAML with comments and empty lines wherever they can stand."""
    writer = _Writer(draw)
    lines = writer.mapping(draw(JOB), draw(st.sampled_from([0, 0, 2])), draw(st.integers(1, 5)))
    return "\n".join([*lines, *writer.comments()]) + "\n"


class _Writer:
    """Writer of values as block YAML or in brackets, with either kind of quotes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0

    def comment(self) -> str:
        self.count += 1
        return f"#{self.count} it's: [a comment"

    def comments(self) -> list[str]:
        if self.draw(st.integers(0, 3)):
            return []
        spaces = " " * self.draw(st.integers(0, 6))
        return [self.draw(st.sampled_from(["", f"{spaces}{self.comment()}"])) for _ in range(2)]

    def beside(self) -> str:
        return " " * self.draw(st.integers(1, 9)) + self.comment() if not self.draw(st.integers(0, 4)) else ""

    def mapping(self, value: dict[str, Any], indent: int, step: int) -> list[str]:
        lines = []
        for key, inner in value.items():
            lines += self.comments()
            lines += self.below(" " * indent + f"{self.scalar(key, is_key=True)}:", inner, indent, step)
        return lines

    def below(self, start: str, value: Any, indent: int, step: int) -> list[str]:
        if not value and isinstance(value, dict | list):
            return [f"{start} {json.dumps(value)}{self.beside()}"]
        if isinstance(value, dict | list) and self.draw(st.booleans()):
            return [f"{start} {self.flow(value)}{self.beside()}"]
        if isinstance(value, dict):
            return [start + self.beside(), *self.mapping(value, indent + step, step)]
        if isinstance(value, list):
            # Lists may stand at the indentation of their key.
            inner = indent + (0 if start.endswith(":") and self.draw(st.booleans()) else step)
            return [start + self.beside(), *self.sequence(value, inner, step)]
        if isinstance(value, str) and value.strip() and not self.draw(st.integers(0, 3)):
            marks = self.draw(st.sampled_from(["|", "|-", ">", "|+", ">-"]))
            text = [" " * (indent + step) + line for line in (value, "", "  more")]
            return [f"{start} {marks}{self.beside()}", *text, *self.draw(st.sampled_from([[], [""]]))]
        return [f"{start} {self.scalar(value)}{self.beside()}"]

    def sequence(self, value: list[Any], indent: int, step: int) -> list[str]:
        lines = []
        for item in value:
            lines += self.comments()
            dash = " " * indent + "-"
            if isinstance(item, dict) and item and self.draw(st.booleans()):
                inner = self.mapping(item, indent + 2, step)
                while not inner[0].strip() or inner[0].lstrip().startswith("#"):
                    inner.pop(0)
                lines += [dash + " " + inner[0].lstrip(), *inner[1:]]
            else:
                lines += self.below(dash, item, indent, step)
        return lines

    def flow(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = [f"{self.scalar(key, is_key=True)}: {self.flow(v)}" for key, v in value.items()]
            return self.brackets("{}", pairs)
        if isinstance(value, list):
            return self.brackets("[]", [self.flow(item) for item in value])
        return self.scalar(value)

    def brackets(self, marks: str, parts: list[str]) -> str:
        space = self.draw(st.sampled_from(["", " "]))
        return marks[0] + space + f",{self.draw(st.sampled_from(['', ' ']))}".join(parts) + space + marks[1]

    def scalar(self, value: Any, *, is_key: bool = False) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        styles = [json.dumps(value)]
        if value.isprintable():
            styles.append("'" + value.replace("'", "''") + "'")
        is_plain = value in PLAIN or value.replace("-", "").replace("_", "").isalnum()
        if is_plain and not (is_key and value in ("3", "true")):
            styles.append(value)
        return self.draw(st.sampled_from(styles))
