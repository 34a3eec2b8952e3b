"""A new field of a role is one line of the model and one of the AppDef: all else follows from these two.

Each test runs a copy of the package in which roles have one more field, `novelty`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.specs import AppDef, JobKey, Launch, Role, digest, document

ROOT = Path(__file__).resolve().parents[2]
MODEL = """\
    novelty: Count = documented(0, "A field that only this test has.", 10)
"""
WORD = 'newness = {example = 10, field = "novelty"}\n'
ROLE = "    novelty: int = field(default=0, metadata=at_least(0))\n"

HEAD = """
import json
from launcher.jobfile.compile.files import compile_text

JOB = '''\
version: 1
name: train
roles:
  main:
    entrypoint: python
    num_replicas: 2
%s'''

def compiled(line):
    return compile_text(JOB % line, "/tmp/train.launcher.yaml")

def launch(line):
    made = compiled(line)
    made.raise_for_errors()
    return made.launches[0]

def diagnostics(line):
    return [f"{one.code} {one.message} {one.label}".strip() for one in compiled(line).diagnostics]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, whose roles have one more field."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "launcher", folder / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
    _add(folder / "launcher/jobfile/model/role.py", MODEL, before="    retry_policy: ")
    _add(folder / "launcher/jobfile/messages/foreign.toml", WORD, before="replicas = {example = 2")
    _add(folder / "launcher/specs/app.py", ROLE, before="\n    def pre_proc(")
    return folder


def _digest_today() -> str:
    app = AppDef("train", [Role("main", "", entrypoint="python", num_replicas=2)])
    key = JobKey("default", "default", "train")
    return digest(document(Launch(key=key, app=app, scheduler="local_cwd", root="/", file="f", origin="o")))


TODAY = _digest_today()
"""The digest of the same job without the field."""


def _add(path: Path, line: str, *, before: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, line + before))


def _run(folder: Path, script: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(folder)}
    alone = "-P" if sys.version_info >= (3, 11) else "-s"
    command = [sys.executable, alone, "-c", f"{HEAD}TODAY = {TODAY!r}\n{script}"]
    got = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert got.returncode == 0, got.stderr


QUICK = ("a job file takes the new field", "a plan shows a change of the new field")
PROGRAMS = {
    "a job file takes the new field": """
assert launch("    novelty: 5").app.roles[0].novelty == 5
assert launch("").app.roles[0].novelty == 0
""",
    "a plan shows a change of the new field": """
from launcher.plan.diff import diff
from launcher.plan.schema import PLAN
from launcher.plan.shapes import faults_in
from launcher.specs import document
old, new = (document(launch(f"    novelty: {n}")) for n in (5, 7))
assert [str(change) for change in diff(old, new)] == ["~ roles.main.novelty: 5 → 7"]
of_job = PLAN["properties"]["jobs"]["items"]["properties"]
shape = of_job["launch"]["properties"]["document"]
assert [*faults_in(shape, new, "")] == []
assert [*faults_in(shape, {**new, "roles": [{**new["roles"][0], "novelty": "x"}]}, "")] != []
""",
    "a wrong value of the new field is reported": """
from launcher.specs import AppDef, Role, check_app
message = "`novelty` of role `main` must be a whole number, not `true`"
assert diagnostics("    novelty: true") == [f"wrong-type {message}"]
assert diagnostics("    novelty: -1") == ["out-of-range `novelty` of role `main` is -1 want at least 0"]
(unknown,) = diagnostics("    noveltie: 1")
assert unknown == "unknown-field `noveltie` is not a field of role `main` did you mean `novelty`?"
assert diagnostics("    newness: 1")[0].endswith("did you mean `novelty`?")
assert diagnostics("    novelty: $<replica_id>")[0].startswith("reference-phase ")
role = Role("main", "", entrypoint="env", novelty=-1)
assert [one.message for one in check_app(AppDef("a", [role]))] == [
    "novelty is an integer of 0 or more, got -1"
]
""",
    "formatting and schema know the new field": """
from launcher.jobfile.format import format_text
from launcher.jobfile.format.style import fields
from launcher.jobfile.schema.files import job_schema
order = [*fields(("roles", "main"))]
assert order.index("novelty") == order.index("retry_policy") - 1
made = job_schema()["$defs"]
assert made["RoleSpec"]["properties"]["novelty"]["default"] == 0
assert "Example: `10`" in made["RoleSpecOverlay"]["properties"]["novelty"]["description"]
""",
    "the digest covers the new field only where it is set, and it crosses to another process": """
from launcher.components.evaluate import app_from_json, app_to_json
from launcher.specs import app_from_document, digest, document, renormalise
from launcher.specs.macros import macros
plain, set_ = document(launch("")), document(launch("    novelty: 5"))
assert digest(plain) == digest(document(launch("    novelty: 0"))) == TODAY != digest(set_)
assert plain["roles"] == [{"name": "main", "entrypoint": "python", "num_replicas": 2}]
assert set_["roles"] == [{**plain["roles"][0], "novelty": 5}]
app = launch("    novelty: 5").app
assert app_from_document(set_, "train", {}) == app
assert renormalise(set_) == set_
assert app_from_json(json.loads(json.dumps(app_to_json(app)))) == app
assert macros.Values("", "a", "0", "R").apply(app.roles[0]).novelty == 5
""",
    "compile and convert write the new field": """
import pathlib
from launcher.cli.convert import _roles
from launcher.cli.compile import job_text
from launcher.jobfile.compile.files import compile_files
pathlib.Path("train.launcher.yaml").write_text(JOB % "    novelty: 5")
made = compile_files(["train.launcher.yaml"])
(text,) = (job_text(made.launches[0], trace) for trace in made.traces.values())
assert any(" ".join(line.split()) == "novelty: 5 # train.launcher.yaml:7" for line in text.splitlines()), text
assert _roles(made.launches[0].app)["roles"]["main"]["novelty"] == 5
assert "novelty" not in _roles(launch("").app)["roles"]["main"]
""",
}


def lane(title: str) -> object:
    marks = () if title in QUICK else pytest.mark.slow
    return pytest.param(PROGRAMS[title], id=title, marks=marks)


@pytest.mark.parametrize("program", [lane(title) for title in PROGRAMS])
def test_all_parts_of_the_package_know_the_new_field(package: Path, program: str) -> None:
    _run(package, program)


ALLOWED = {
    "jobfile/model/role.py": "the table",
    "jobfile/compile/advice.py": "fields that do nothing without another one",
    "jobfile/messages/foreign.py": "values of other tools, written for them",
    "jobfile/messages/remedies.py": "values of another type, written for them",
    "jobfile/compile/build.py": "fields that a job file spells otherwise than an AppDef",
    "specs/app.py": "the table, and the order in which documents are written since lr1",
    "specs/check.py": "rules over several fields",
}
"""Files of the language that may name a field of a role, and why."""


@pytest.mark.parametrize("field", ["max_retries", "min_replicas", "port_map", "retry_policy"])
def test_no_other_table_names_the_fields_of_a_role(field: str) -> None:
    language = [ROOT / "launcher" / part for part in ("jobfile", "specs", "plan", "cli/render")]
    files = [path for part in language for path in part.rglob("*.py")]
    naming = {
        str(path.relative_to(ROOT / "launcher"))
        for path in files
        if re.search(rf"\b{field}\b", path.read_text())
    }
    assert {"jobfile/model/role.py", "specs/app.py"} <= naming
    assert naming - ALLOWED.keys() == set()
