"""The pages name only what exists: references, commands, options, fields, variables, exit codes, code."""

import builtins
import json
import re
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML as Yaml

import launcher.errors
from launcher.cli.arguments import Arguments
from launcher.cli.main import command, names
from launcher.jobfile.compile.project import GIT_NAMES
from launcher.jobfile.model.fields import JOB_FIELDS, ROLE
from launcher.jobfile.model.job_file import LifecycleSpec, NeedSpec
from launcher.jobfile.model.types import model_classes
from launcher.schedulers import DEFAULT_SCHEDULERS, get_scheduler
from launcher.specs import RUN_MACROS
from launcher.specs.check import JOB_DIR
from tests.unit.test_docs_tables import SET_BY_DDP, keyed, rows

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ("ARCHITECTURE.md", "CONTRIBUTING.md")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in PAPERS)]
PAGES += [
    ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", ROOT / "launcher" / "cli" / "skill.md",
]  # fmt: skip
GENERATED = ROOT / "docs" / "job-file.md"
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def prose(page: Path) -> str:
    """Return the text of a page without its blocks, which other tests run."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def code(page: Path) -> list[str]:
    """Return every text between backquotes."""
    return re.findall(r"`([^`\n]+)`", prose(page))


COMPILED = (*GIT_NAMES, JOB_DIR, "job.name", "job.project", "target.name")
FREE = r"(var|matrix)\.[A-Za-z_][\w-]*|role\.[\w-]+\.host|needs\.[\w-]+\.output_dir|((var|matrix|git)\.)?…"
MISSPELT_ON_PURPOSE = {"app_idd", "replica"}


@every_page
def test_every_reference_that_a_page_names_exists(page):
    named = {*re.findall(r"\$<([^<>\n]*)>", page.read_text())} - MISSPELT_ON_PURPOSE
    known = {*RUN_MACROS, *COMPILED}
    assert {name for name in named if name not in known and not re.fullmatch(FREE, name)} == set()


@cache
def options_of(name: str) -> set[str]:
    arguments = Arguments(name)
    command(name).add_arguments(arguments)
    return {word for argument in arguments.declared for word in argument.names} | {"--help", "-h"}


@every_page
def test_every_command_that_a_page_names_has_the_options_beside_it(page):
    wrong = []
    for text in code(page):
        words = text.removeprefix(".venv/bin/").split()
        if (
            words[:1] != ["launcher"]
            or len(words) == 1
            or not re.fullmatch(r"[a-z]+", words[1])
            or "(" in text
        ):
            continue
        given = [word.partition("=")[0] for word in words[2:] if re.match(r"--[a-z]", word)]
        if words[1] not in names() or not {*given} <= options_of(words[1]):
            wrong.append(text)
    assert wrong == []


AXES = {"lr", "model", "seed", "size"}
NO_FIELDS = AXES | {"API_KEY", "MASTER_PORT", "WANDB_API_KEY", "docker", "hold", "module", "timeout-minutes"}
"""Words before a colon: axes, variables, an area of commits, an action, a command, a field of others."""
OF_OTHERS = {"queue: max", "wait: false", "matrix: null"}
"""A key of GitHub's workflows, one of `launcher run --stdin`, and a field that a target takes away."""
ABRIDGED = re.compile(r"…|\b[A-Z]\b")
YAML = Yaml(typ="safe", pure=True)
JUDGE = Draft202012Validator(json.loads((ROOT / "schemas" / "job-v1.schema.json").read_text()))


def in_a_job(key: str, text: str) -> str:
    """Return a job file with the entry `text` at a place where it may stand; "" where there is none."""
    main = "version: 1\nname: a\nroles:\n  main:\n    entrypoint: x\n"
    if key in ("entrypoint", "run") or (key in ROLE.fields and key not in JOB_FIELDS):
        return f"{main.replace('    entrypoint: x', '')}    {text}\n"
    if key == "component":
        return f"version: 1\nname: a\n{text}\n"
    if key in LifecycleSpec.model_fields:
        return f"{main}lifecycle:\n  {text}\n"
    if key in JOB_FIELDS and key not in ("version", "name", "roles"):
        return f"{main}{text}\n"
    if key in NeedSpec.model_fields:
        return f"{main}needs:\n  b:\n    {text}\n"
    takers = (name for name in DEFAULT_SCHEDULERS if get_scheduler(name, "").run_opts().get(key))
    scheduler = next(takers, "")
    return f"{main}scheduler: {scheduler}\ncfg:\n  {text}\n" if scheduler else ""


def is_field(key: str) -> bool:
    return any(key in model.model_fields for model in model_classes())


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED], ids=lambda page: page.stem)
def test_every_entry_of_a_job_file_that_a_page_names_is_right(page):
    """The schema of job files judges the entries; of deeper fields only the name is compared."""
    entries = [text for text in code(page) if re.fullmatch(r"[\w-]+: .+", text) and not ABRIDGED.search(text)]
    entries = [text for text in entries if text not in OF_OTHERS and key_of(text) not in NO_FIELDS]
    files = {text: in_a_job(key_of(text), text) for text in entries}
    assert {
        text: whole for text, whole in files.items() if whole and not JUDGE.is_valid(YAML.load(whole))
    } == {}
    assert [text for text, whole in files.items() if not whole and not is_field(key_of(text))] == []


def key_of(entry: str) -> str:
    return entry.partition(": ")[0]


@every_page
def test_every_variable_of_ours_that_a_page_names_is_in_the_tables(page):
    tables = [keyed("environment", f"Variables {of}") for of in ("of a replica", "that the command reads")]
    known = {name for table in tables for name in table} | SET_BY_DDP
    known |= {"LAUNCHER_REQUIRE", "LAUNCHER_KILL_SEEDS", "LAUNCHER_KILL_ACTS"}
    known |= {"LAUNCHER_HOST_SERVER", "LAUNCHER_HOST_"}
    assert {*re.findall(r"\bLAUNCHER_[A-Z0-9_]+", page.read_text())} <= known


@every_page
def test_every_exit_code_that_a_page_names_is_in_the_table(page):
    codes = {row[0] for row in rows("exit-codes") if row[0].isdigit()}
    named = re.findall(r"(?:exits?|exit code)(?: is)?(?: with)?(?: code)? (\d+)\b(?! s)", prose(page))
    ends_of_replicas = {"17"}
    assert {*named} - ends_of_replicas <= codes


@every_page
def test_every_exception_that_a_page_names_exists(page):
    named = {text for text in code(page) if re.fullmatch(r"\w+Error", text)}
    assert {
        name for name in named if not hasattr(launcher.errors, name) and not hasattr(builtins, name)
    } == set()
