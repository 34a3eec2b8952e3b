"""`launcher use`: the table, and edits of job files in place."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.holding.use import Use
from launcher.jobfile import load_jobs
from launcher.specs import Attempt, Launch
from launcher.state.store import Store
from tests.scenario import Done, Scenario
from tests.unit.cli.worlds import attempt

GIB = 2**30
JOB = """\
version: 1
name: train  # the job
timeout: 24h
roles:
  main:
    entrypoint: python
    resource: {cpu: 8, memory: "64GiB"}  # as the paper says
"""
TOML = """\
version = 1
name = "train"
timeout = "24h"  # a day

[roles.main]
entrypoint = "python"
resource = {cpu = 8, memory = "64GiB"}  # as the paper says
"""


def use(gib: float = 9.0, cores: float = 1.8, source: str = "cgroup") -> Use:
    return Use((cores * 100, 0.0, int(gib * GIB), source), wall_s=100.0)


@pytest.fixture
def ran(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A function that writes a job file, and records attempts of its jobs with this use of each role."""
    monkeypatch.chdir(scenario.folder)

    def put(text: str, *uses: Use, name: str = "train.launcher.yaml", jobs: str = "", **more: str) -> Path:
        file = scenario.write(name, text)
        with Store.open() as store:
            for launch in load_jobs(file, target=more.get("target")):
                if not launch.key.job.startswith(jobs):
                    continue
                for number, each in enumerate(uses, 1):
                    used = {role.name: each for role in launch.app.roles}
                    store.record(ended(launch, number, used))
        return file

    return put


def ended(launch: Launch, number: int, used: dict[str, Use]) -> Attempt:
    """Return a success of 100 s, a few minutes ago."""
    now = time.time()
    made = attempt(launch, "succeeded", number=number, used=used, started_at=now - 200, ended_at=now - 100)
    return replace(made, created_at=now - 300 + number)


def written(scenario: Scenario, *argv: str, code: int = 0) -> Done:
    return scenario.launcher("use", *argv, "--write", "--yes", code=code)


def test_two_attempts_that_agree_make_a_suggestion(scenario, ran):
    ran(JOB, use(7, 1.5), use(9, 1.8))
    shown = [line.split("  ") for line in scenario.launcher("use").out.splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in shown]
    assert rows == [
        ["JOB", "ROLE", "AMOUNT", "ASKED", "MEDIAN", "HIGHEST", "OF", "SOURCE", "SUGGESTED"],
        ["train", "main", "cores", "8", "1.6", "1.8", "2", "cpu: 3"],
        ["memory", "64 GiB", "8 GiB", "9 GiB", "2", "cgroup", "memory: 12GiB"],
        ["time", "1d", "1m40s", "1m40s", "2", "timeout: 10m"],
    ]


def test_the_command_that_an_edit_suggests_can_be_pasted(scenario, ran):
    ran(JOB, use(), use(), name="my train.launcher.yaml")
    words = shlex.split(written(scenario).err.partition("`launcher ")[2].partition("`")[0])
    assert "Plan: 1 to create" in scenario.launcher(*words).out


def test_the_json_of_use_has_plain_numbers(scenario, ran):
    ran(JOB, use(), use())
    (found,) = json.loads(scenario.launcher("use", "train", "--json").out)
    assert (found["name"], found["jobs"], found["attempts"]) == ("train", ["train"], 2)
    cores, memory, took = found["amounts"]
    assert (cores["asked"], cores["highest"], cores["suggested"]) == (8, 1.8, "3")
    assert (memory["asked"], memory["median"], memory["source"]) == (64 * GIB, 9 * GIB, "cgroup")
    assert (took["field"], took["role"], took["asked"]) == ("timeout", None, 86400)


def test_the_largest_process_makes_no_suggestion_and_the_reason_is_shown(scenario, ran):
    ran(JOB, use(source="process"), use(source="process"))
    shown = scenario.launcher("use")
    assert "memory:" not in shown.out
    assert "memory of train: nothing is suggested, since the largest process alone was measured" in shown.err


def test_samples_make_no_suggestion_for_cores_either(scenario, ran):
    """The last sample of a run may be from its first half."""
    ran(JOB, use(source="samples"), use(source="samples"))
    shown = scenario.launcher("use")
    assert "cpu:" not in shown.out
    assert shown.err.count("a sample may miss a peak") == 2


def test_target_and_project_select_the_jobs(scenario, ran):
    ran(JOB, use(), use())
    assert "train" in scenario.launcher("use", "-t", "default").out
    assert scenario.launcher("use", "-t", "gpu").out == ""
    assert scenario.launcher("use", "--project", "other").err.startswith("no attempts since then")
    assert scenario.launcher("use", "--since", "1s").out == ""
    assert "no job or app" in scenario.launcher("use", "nothing", code=1).err


@pytest.mark.parametrize(("text", "name"), [(JOB, "train.launcher.yaml"), (TOML, "train.launcher.toml")])
def test_write_changes_the_values_and_no_other_text(scenario, ran, text, name):
    file = ran(text, use(), use(), name=name)
    file.chmod(0o640)
    before = file.read_text()
    done = written(scenario)
    after = before.replace("64GiB", "12GiB").replace("24h", "10m")
    assert file.read_text() == after.replace("cpu: 8", "cpu: 3").replace("cpu = 8", "cpu = 3")
    assert f"--- {name}\n" in done.out
    assert file.stat().st_mode & 0o777 == 0o640
    assert f"launcher plan {name}" in done.err
    assert sorted(os.listdir(scenario.folder)) == [name]


def test_write_without_approval_changes_no_file(scenario, ran):
    file = ran(JOB, use(), use())
    before = file.read_text()
    done = scenario.launcher("use", "--write", code=3)
    assert "+" in done.out
    assert "--yes" in done.err
    assert file.read_text() == before
    assert "cannot be combined" in scenario.launcher("use", "--write", "--json", code=64).err


def test_write_replaces_a_number_with_a_number(scenario, ran):
    text = JOB.replace('memory: "64GiB"', "memMB: 65536").replace("24h", "86400")
    file = ran(text, use(), use())
    written(scenario)
    assert "memMB: 12288}" in file.read_text()
    assert "timeout: 600\n" in file.read_text()


def test_a_byte_order_mark_and_line_ends_stay(scenario, ran):
    file = ran(JOB, use(), use())
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    before = file.read_bytes()
    written(scenario)
    changed = before.replace(b"64GiB", b"12GiB").replace(b"24h", b"10m").replace(b"cpu: 8", b"cpu: 3")
    assert file.read_bytes() == changed


YAML = "version: 1\nname: train\nroles:\n  main:\n    entrypoint: a\n"
MAIN = "version = 1\nname = 'train'\nroles.main.entrypoint = 'a'\n"
FORMS = {
    "a block": YAML + "    resource:\n      # enough\n      memory: @  # ?\n",
    "a blank before the unit": YAML + "    resource: {memory: 64 GiB}\n",
    "single quotes": YAML + "    resource: {memory: '@'}\n",
    "an anchor": YAML + "    resource: {memory: &m @}\nx-m: *m\n",
    "braces alone": '{version: 1, name: train, roles: {main: {entrypoint: a, resource: {memory: "@"}}}}\n',
    "the defaults of roles": YAML + "defaults: {role: {resource: {memory: @}}}\n",
    "a table": MAIN + '[roles.main.resource]\nmemory = "@"  # ?\n',
    "a dotted key": MAIN + "roles.main.resource.memory = '@'\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_of_a_value_is_edited_in_place(scenario, ran, text):
    suffix = "toml" if "version =" in text else "yaml"
    file = ran(text.replace("@", "64GiB"), use(), use(), name=f"train.launcher.{suffix}")
    written(scenario)
    assert file.read_text() == text.replace("@", "12GiB").replace("64 GiB", "12GiB")


BY_HAND = {
    "an alias": YAML.replace("roles", "x-m: &m @\nroles") + "    resource: {memory: *m}\n",
    "a block scalar": YAML + "    resource:\n      memory: >-\n        @\n",
    "a merge key": YAML.replace("roles", "x-m: &m {memory: @}\nroles") + "    resource: {<<: *m, cpu: 1}\n",
}


@pytest.mark.parametrize("text", BY_HAND.values(), ids=BY_HAND)
def test_a_rare_form_of_a_value_is_left_alone_or_edited_correctly(scenario, ran, text):
    file = ran(text.replace("@", "64GiB"), use(cores=1), use(cores=1))
    done = scenario.launcher("use", "--write", "--yes", code=None)
    assert file.read_text() in (text.replace("@", "64GiB"), text.replace("@", "12GiB"))
    assert done.code in (0, 1)
    assert (done.code == 0) == ("12GiB" in file.read_text())
    assert load_jobs(file)[0].app.roles[0].resource.memMB == (65536 if done.code else 12288)


def test_each_job_of_a_file_is_edited_by_its_own_use(scenario, ran):
    one = "entrypoint: a, resource: {memory: 64GiB}"
    text = "version: 1\njobs:\n" + "".join(f"  {job}: {{roles: {{main: {{{one}}}}}}}\n" for job in "ab")
    file = ran(text, use(), use(), jobs="b", name="two.launcher.yaml")
    written(scenario)
    assert [each.app.roles[0].resource.memMB for each in load_jobs(file)] == [65536, 12288]


def test_a_component_keeps_its_arguments(scenario, ran):
    text = "version: 1\nname: train\ncomponent: utils.sh\nargs: {args: [echo], cpu: 4}\n"
    file = ran(text, use(cores=1), use(cores=1))
    assert "write `cpu: 2`" in written(scenario, code=1).err
    assert file.read_text() == text


ELSEWHERE = {
    "a variable": (
        JOB.replace('"64GiB"', "$<var.mem>") + "vars: {mem: {type: str, default: 64GiB}}\n",
        'train.launcher.yaml:7; `$<var.mem>` is "64GiB"',
    ),
    "a resource by name": (JOB.replace('{cpu: 8, memory: "64GiB"}', "gpu.small"), "gpu.small"),
    "an axis": (JOB.replace('"64GiB"', "$<matrix.mem>") + "matrix: {mem: [64GiB, 65GiB]}\n", "matrix"),
}


@pytest.mark.parametrize(("text", "word"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_value_that_comes_from_elsewhere_is_left_alone_and_its_place_is_named(scenario, ran, text, word):
    file = ran(text, use(), use())
    before = file.read_text()
    done = written(scenario, code=1)
    memory = [line for line in done.err.splitlines() if ": memory: " in line]
    assert memory
    assert all(word in line and "write `memory: 12GiB`" in line for line in memory)
    assert file.read_text() == before.replace("24h", "10m").replace("cpu: 8", "cpu: 3")


def test_a_value_of_a_parent_or_of_the_project_is_named_by_its_place(scenario, ran):
    scenario.write("launcher.toml", "[defaults.role]\nresource = {cpu = 8}\n")
    scenario.write("base.launcher.yaml", "version: 1\nabstract: true\ntimeout: 24h\n")
    text = JOB.replace("timeout: 24h", "extends: base.launcher.yaml").replace("cpu: 8, ", "")
    file = ran(text, use(), use())
    before = file.read_text()
    done = written(scenario, code=1)
    assert "base.launcher.yaml:3, for other jobs, too; write `timeout: 10m` there" in done.err
    assert "launcher.toml:2, for other jobs, too; write `cpu: 3` there" in done.err
    assert file.read_text() == before.replace("64GiB", "12GiB")


def test_an_overlay_of_the_target_is_edited(scenario, ran):
    text = JOB + 'targets: {gpu: {roles: {main: {resource: {memory: "32GiB"}}}}}\n'
    file = ran(text, use(), use(), target="gpu")
    done = written(scenario)
    assert '"64GiB"' in file.read_text()
    assert '"12GiB"' in file.read_text()
    assert "train: timeout changes for target `default`, too" in done.err


SHARED = """\
version: 1
name: train
roles:
  main: {entrypoint: a, resource: &size {memory: 64GiB}}
  other: {entrypoint: b, num_replicas: 2, resource: *size}
"""


def test_a_text_that_two_roles_read_changes_only_for_both(scenario, ran):
    file = ran(SHARED, use(), use())
    written(scenario)
    assert "&size {memory: 12GiB}" in file.read_text()


def test_a_text_that_a_busier_role_reads_stays(scenario, ran):
    file = ran(SHARED)
    (launch,) = load_jobs(file)
    with Store.open() as store:
        for number in (1, 2):
            store.record(ended(launch, number, {"main": use(9), "other": use(60)}))
    assert "together with `roles.other.resource.memory` of train" in written(scenario, code=1).err
    assert file.read_text() == SHARED


SWEEP = JOB.replace("name: train", "name: sweep") + "matrix: {seed: [1, 2, 3]}\n"


def test_a_matrix_counts_together_also_for_jobs_that_have_not_run(scenario, ran):
    file = ran(SWEEP, use(), jobs="sweep-1", name="sweep.launcher.yaml")
    ran(SWEEP, use(5), jobs="sweep-2", name="sweep.launcher.yaml")
    assert "sweep (2 jobs)" in scenario.launcher("use").out
    written(scenario, "sweep")
    assert "12GiB" in file.read_text()


def test_one_job_of_a_matrix_does_not_decide_for_the_others(scenario, ran):
    file = ran(SWEEP, use(), use(), name="sweep.launcher.yaml")
    before = file.read_text()
    done = written(scenario, "sweep-1", code=1)
    assert "together with" in done.err
    assert file.read_text() == before


def stale(file: Path, text: str) -> None:
    file.unlink() if not text else file.write_text(file.read_text().replace(*text.split(" -> ")))


@pytest.mark.parametrize(("change", "message"), [
    ("", "is not here"),
    ("64GiB -> 48GiB", "asks for 48GiB now, and the newest attempt asked for 64GiB"),
    ("name: train -> name: other", "does not declare it any more"),
    ("roles: -> rolse:", "has errors: `launcher validate train.launcher.yaml` shows them"),
    (', memory: "64GiB" -> ', "asks for nothing now"),
])  # fmt: skip
def test_write_refuses_a_job_file_that_has_changed_since_the_attempts(scenario, ran, change, message):
    file = ran(JOB, use(), use())
    stale(file, change)
    before = file.read_text() if file.exists() else ""
    assert message in written(scenario, code=1).err
    after = file.read_text() if file.exists() else ""
    if "GiB" in change:  # the other amounts are as they were
        before = before.replace("cpu: 8", "cpu: 3").replace("24h", "10m")
    assert after == before


def test_a_file_of_another_repository_is_refused(scenario, ran):
    ran(JOB, use(), use())
    with Store.open() as store:
        store._connection.execute("UPDATE attempts SET origin = 'example.org/other'")
    for words in (["init", "-q", "."], ["remote", "add", "origin", "https://example.org/repo"]):
        subprocess.run(["git", *words], check=True, cwd=scenario.folder)
    done = written(scenario, code=1)
    assert "is that of example.org/repo, not of example.org/other" in done.err
