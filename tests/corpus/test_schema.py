"""The committed schema on the corpus, through jsonschema and through check-jsonschema: one verdict with the
models, but for warnings, and for the rules that a schema cannot say, which `beyond-the-schema.txt` lists."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.jobfile.diagnostic import WARNINGS
from launcher.jobfile.text.document import Document, Source, source_of
from launcher.jobfile.text.parse import parse
from tests.corpus.words import BAD, FOLDER, GOOD, compiled, expected, name_of

SCHEMA = FOLDER.parents[1] / "schemas" / "job-v1.schema.json"
EXAMPLES = sorted((FOLDER.parents[1] / "examples").rglob("*.launcher.*"))
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))

BEYOND = re.findall(r"(?m)^[^#\n].*", (FOLDER / "beyond-the-schema.txt").read_text())
"""The bad files that the schema accepts, although they are wrong."""

# Files that check-jsonschema reads otherwise than we do: good ones that it refuses (a mark before TOML),
# wrong ones that it takes (keys and tags that we do without), one that Python lets pass and it does not.
OTHER_READING: Mapping[str, tuple[str, ...]] = {
    "good": ("good/byte-order-mark-toml.launcher.toml",),
    "takes": (
        "bad/encodings/lone-surrogate.launcher.yaml",
        "bad/yaml/directive.launcher.yaml",
        "bad/yaml/int-tag.launcher.yaml",
        "bad/yaml/list-as-key.launcher.yaml",
        "bad/yaml/null-as-key.launcher.yaml",
        "bad/yaml/number-as-key.launcher.yaml",
        "bad/yaml/true-as-key.launcher.yaml",
    ),
    "refuses": ("bad/names/trailing-newline.launcher.yaml",),
}


def read(path: Path) -> Document | None:
    """Return the value of a file as we read it; None for a file that is no text or has no value."""
    source = source_of(str(path), path.read_bytes())
    document = parse(source) if isinstance(source, Source) else None
    return document if document is not None and document.value is not None else None


def is_valid(path: Path) -> bool | None:
    """Return whether the schema accepts a file; None for a file without a value."""
    document = read(path)
    return VALIDATOR.is_valid(as_json(document.value)) if document is not None else None


def as_json(value: Any) -> Any:
    """Return the value with dates and times of TOML as text, as JSON tools see them."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return value if isinstance(value, str | int | float) or value is None else str(value)


def test_every_good_file_is_valid() -> None:
    assert [name_of(path) for path in GOOD if not is_valid(path)] == []


@pytest.mark.slow
def test_each_bad_file_that_the_schema_accepts_is_listed_below_its_rule() -> None:
    warned = {name_of(path) for path in BAD if {each.code for each in expected(path)} <= WARNINGS}
    passed = {name_of(path) for path in BAD if is_valid(path)}
    assert warned - passed == set(), "a file with warnings alone is valid"
    passed -= warned
    listed = [f"bad/{name}" for name in BEYOND]
    assert passed - {*listed} == set(), "list these below the rule that a schema cannot say"
    assert {*listed} - passed == set(), "delete these: the schema refuses them, or they have warnings alone"
    assert len(listed) == len(passed), "a file stands twice in the list"


def test_the_models_refuse_every_file_that_the_schema_refuses() -> None:
    for path in BAD:
        assert is_valid(path) is not False or compiled(path).errors


@pytest.fixture(scope="module")
def refused() -> set[str]:
    """The files of the corpus that check-jsonschema refuses: wrong by the schema, or unreadable."""
    paths = [path for path in (*GOOD, *EXAMPLES, *BAD) if is_for_the_tool(path)]
    command = [
        sys.executable, "-m", "check_jsonschema", "--schemafile", str(SCHEMA), "-o", "json", *map(str, paths),
    ]  # fmt: skip
    output = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    named = {found["filename"] for kind in ("errors", "parse_errors") for found in output[kind]}
    return {name_of(Path(name)) for name in named}


@pytest.mark.slow
def test_check_jsonschema_accepts_every_good_file_and_every_example(refused: set[str]) -> None:
    assert refused & {name_of(path) for path in (*GOOD, *EXAMPLES)} == set(OTHER_READING["good"])


@pytest.mark.slow
def test_check_jsonschema_agrees_with_the_schema_on_every_wrong_file(refused: set[str]) -> None:
    names = {name_of(path): path for path in BAD if is_for_the_tool(path)}
    ours = {name for name, path in names.items() if is_valid(path) is not True or has_problems(path)}
    theirs = refused & names.keys()
    assert ours - theirs == set(OTHER_READING["takes"])
    assert theirs - ours == set(OTHER_READING["refuses"])


def is_for_the_tool(path: Path) -> bool:
    """Return whether check-jsonschema can judge a file.

    It knows no limits, ends in a traceback at bytes that are not UTF-8, and reads the TOML of its Python.
    """
    return (
        path.parent.name != "limits"
        and not path.name.startswith("newer-than")
        and isinstance(source_of(str(path), path.read_bytes()), Source)
    )


def has_problems(path: Path) -> bool:
    """Return whether the text itself is wrong: a key twice, a tag, bytes that are no text."""
    document = read(path)
    return document is not None and bool(document.problems)
