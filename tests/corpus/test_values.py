"""Each job file of `values` has exactly the values that stand below it.

The notation is that of `messages` (`test_messages.py`), with lines `> FIELD: VALUE` for the launches. FIELD
is one of `FACTS`, of a launch or of its first role, and goes on with dots: `resource.memMB`, `roles.b.image`.
VALUE is YAML: for several launches a list, in their order. Each line `| INPUT => VALUE` makes a case of its
own: INPUT is in the text at `%s`, VALUE in the values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from launcher.jobfile import render
from launcher.specs import Launch, Secret
from tests.corpus.test_messages import Case, read

FOLDER = Path(__file__).parent / "values"

FACTS: Mapping[str, Callable[[Launch], Any]] = {
    "roles": lambda launch: {role.name: role for role in launch.app.roles},
    "needs": lambda launch: [each.job + ("" if each.rerun else ", for the order") for each in launch.needs],
    "notes": lambda launch: [note.partition(":")[0] for note in launch.notes],
}


def plain(value: Any) -> Any:
    """Return a value of a launch as plain data."""
    if isinstance(value, Secret):
        return {"secret": str(value)}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


def found(launch: Launch, path: str) -> Any:
    """Return the value of a launch at a dotted path, or those at several paths, as plain data."""
    if ", " in path:
        return [found(launch, each) for each in path.split(", ")]
    first, *rest = path.split(".")
    owners = (each for each in (launch.key, launch, launch.app.roles[0]) if hasattr(each, first))
    value = plain(FACTS[first](launch) if first in FACTS else getattr(next(owners), first))
    for key in rest:
        value = value[int(key) if key.isdecimal() else key]
    return value


def cases() -> Iterator[object]:
    for path in sorted(FOLDER.glob("*.txt")):
        known = [case for _, case in read(path) if case is not None]
        for number, case in enumerate(known, 1):
            rows = re.findall(r"(?m)^\| (.*?) => (.*)\n", case.text) or [("", "")]
            for row, (given, value) in enumerate(rows, 1):
                text = re.sub(r"(?m)^\| .*\n", "", case.text).replace("%s", given.replace(r"\n", "\n"))
                wanted = [line[2:].replace("%s", value).partition(": ")[::2] for line in case.messages]
                name = f"{path.stem}-{number}-{row}: {case.about}"
                yield pytest.param(case._replace(text=text), wanted, id=name)


@pytest.mark.parametrize(("case", "wanted"), [*cases()])
def test_a_job_file_has_exactly_its_values(tmp_path: Path, case: Case, wanted: list[tuple[str, str]]) -> None:
    result = case.compiled(tmp_path)
    assert result.errors == (), render(result.errors)
    values = {path: [found(launch, path) for launch in result.launches] for path, _ in wanted}
    yaml = YAML(typ="safe", pure=True)
    assert {path: each if len(each) > 1 else each[0] for path, each in values.items()} == {
        path: yaml.load(value) for path, value in wanted
    }
