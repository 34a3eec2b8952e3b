"""The published schema of launcher.toml: generated, of known keywords, and consistent with its readers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from jsonschema import Draft202012Validator

from launcher.cli import schema as published
from launcher.jobfile.compile.project import read_config
from launcher.runner.config import dump
from launcher.specs.projectfile import BUDGET, CI, COMMANDS, DEFAULTS, FIELDS, NOTIFY, QUEUE, SHARED
from tests.unit.jobfile.test_schema import schemas

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "schemas" / "project-v1.schema.json"
SCHEMA: dict[str, Any] = json.loads(PUBLISHED.read_text())
FIELDS_OF: dict[str, Any] = SCHEMA["properties"]
GOOD = sorted((ROOT / "tests" / "corpus" / "good").rglob("launcher.toml"))
BAD = sorted((ROOT / "tests" / "corpus" / "bad" / "project").rglob("launcher.toml"))


def is_valid(text: str) -> bool:
    return Draft202012Validator(SCHEMA).is_valid(tomli.loads(text))


def test_the_project_schema_has_the_fields_that_the_readers_of_the_file_know():
    assert FIELDS_OF.keys() == {*FIELDS}
    assert FIELDS_OF["queue"]["properties"].keys() == {*QUEUE}
    assert FIELDS_OF["budget"]["properties"].keys() == {*BUDGET}
    assert FIELDS_OF["notify"]["properties"].keys() == {*NOTIFY}
    assert FIELDS_OF["ci"]["properties"].keys() == {*CI}
    assert FIELDS_OF["defaults"]["properties"].keys() == {*DEFAULTS}
    assert {
        name: (*table["properties"],) for name, table in FIELDS_OF["cli"]["properties"].items()
    } == COMMANDS
    assert {*SHARED} < FIELDS_OF.keys()


def test_every_field_has_its_name_as_title_and_a_description_with_an_example():
    for schema in schemas(SCHEMA):
        for key, field in schema.get("properties", {}).items():
            if field.keys() != {"$ref"} and not key.count("."):
                assert "description" in field, key
    for key, field in FIELDS_OF.items():
        assert field["title"] == key
        text, _, example = field["description"].partition(" Example: ")
        assert text.endswith(".")
        assert is_valid(example.strip("`")), example


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.parent.name)
def test_the_project_schema_accepts_good_files(path):
    assert is_valid(path.read_text())


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.parent.name)
def test_the_project_schema_refuses_files_that_the_reader_refuses(path):
    """Schedulers of plug-ins, targets that no job file has, and text that is no TOML are excepted."""
    beyond = {"unknown-scheduler", "unknown-target", "syntax"}
    assert path.parent.name in beyond or not is_valid(path.read_text())


def test_the_project_schema_accepts_every_option_of_a_scheduler_at_its_default(tmp_path):
    with open(tmp_path / "launcher.toml", "w") as file:
        dump(file, required_only=False)
    text = (tmp_path / "launcher.toml").read_text()
    assert is_valid(text)
    lines = (line.removeprefix("# ") for line in text.splitlines() if " =   #" not in line)
    assert is_valid("\n".join(lines))


WRONG = {
    '[schedulers.slurm]\npartiton = "gpu"': "unknown-option",
    "[schedulers.local_docker]\nlog_max_files = 0": "out-of-range",
    "[queue]\nmemory = 32": "wrong-type",
    "[queue]\ngpu = 2": "unknown-field",
    '[budget]\ngpu_hours = "100"': "wrong-type",
    "[budget]\ngpuhours = 100": "unknown-field",
    "[budget]\ncore_hours = -1": "out-of-range",
    "[budget.prod]\ncores = 1": "unknown-field",
    "[budget.prod]\ngpu_hours = true": "wrong-type",
    "[budget.gpu_hours]\nprod = 1": "wrong-type",
    '[budget."not a label"]\ngpu_hours = 1': "invalid-name",
    '[notify]\nurl = "ftp://example.com"': "invalid-value",
    '[notify]\nurl = "https://user:word@example.com"': "invalid-value",
    '[notify]\nurl = "https://example.com"\nsecret = "whsec_AAAA"': "invalid-value",
    '[notify]\ncommand = "mail"': "wrong-type",
    "[notify]\ncommand = []": "missing-field",
    '[notify]\nurl = "https://example.com"\non = ["ended"]': "unknown-variant",
    '[notify]\non = ["failed"]': "missing-field",
    '[notify]\ncommand = ["mail"]\nsecret = "env:KEY"': "constraint",
    '[notify]\nuri = "https://example.com"\nurl = "https://example.com"': "unknown-field",
    '[ci]\nprune = "yes"': "wrong-type",
    '[cli.run]\nsheduler = "slurm"': "unknown-field",
    "[lifecycle]\nmax_attempts = 0": "out-of-range",
    '[components."utils.echo"]\nmesg = "x"': "unknown-field",
    'exclude = "tests"': "wrong-type",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text.replace("\n", " "))
def test_the_reader_and_the_project_schema_refuse_the_same_texts(text, tmp_path):
    file = tmp_path / "launcher.toml"
    file.write_text(text)
    options = {
        name: (lambda known=each: known.options) for name, each in published.declared_schedulers().items()
    }
    found = read_config("launcher.toml", str(file), options).problems
    assert [each.code for each in found] == [WRONG[text]]
    assert not is_valid(text)


def test_the_docs_page_of_launcher_toml_names_every_entry():
    page = (ROOT / "docs" / "launcher-toml.md").read_text()
    table = page[page.index("## Every table") :]
    tables = ("queue", "budget", "notify", "ci", "defaults")
    inner = [key for name in tables for key in FIELDS_OF[name]["properties"]]
    inner += [key for command in FIELDS_OF["cli"]["properties"].values() for key in command["properties"]]
    assert [key for key in FIELDS_OF if not re.search(rf"^\| `\[?{key}\b", table, re.M)] == []
    assert [key for key in inner if f"`{key}`" not in table] == []
