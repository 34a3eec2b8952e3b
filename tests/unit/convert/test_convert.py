"""`launcher convert FILE`: the table of files of other tools, and every way in which a file can be wrong."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from launcher.cli.main import main
from launcher.convert import sbatch
from launcher.convert.compose_fields import FIELDS
from launcher.convert.convert import convert
from launcher.convert.sbatch_script import read
from launcher.errors import LauncherError
from launcher.jobfile.compile.files import compile_text
from launcher.jobfile.format import format_text
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.parse import parse_values
from launcher.schedulers.registry import SchedulerRules
from launcher.schedulers.slurm.options import KNOWN, OWN_OPTION, REFUSED
from launcher.specs import Launch
from launcher.specs.macros import substitute
from tests.lanes import sampled
from tests.unit.convert.cases import cases, write

CASES = [case for kind in ("sbatch", "compose", "procfile") for case in cases(kind)]
SECRETS = ("hunter2", "abc123", "hf_", "0123456789abcdef", "k3y", "pw ", "=one", "=two", "TOKEN: one")
UNPINNED = "the image of role"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    work = tmp_path / "w"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sbatch, "MAX_JOBS", 100)  # 10,000 jobs take seconds to compile
    return work


def launches(text: str) -> tuple[Launch, ...]:
    rules = SchedulerRules()
    made = compile_text(
        text, os.path.abspath("x.launcher.yaml"), rules, rules=rules.problems, placeholders=True
    )
    made.raise_for_errors()
    return made.launches


def test_the_table_has_enough_cases_of_each_kind():
    kinds = [case.kind for case in CASES]
    assert (kinds.count("sbatch"), kinds.count("compose"), kinds.count("procfile")) >= (25, 20, 5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.name}")
def test_a_file_becomes_a_canonical_valid_job_file_and_strict_fails_where_something_has_no_place(
    case, folder, capsys
):
    write(case, folder)
    assert main(["convert", case.file]) == 0
    got = capsys.readouterr()
    assert (got.out, got.err) == (case.job, case.report)
    is_whole = not any(line.startswith("!") for line in case.report.splitlines())
    assert main(["convert", "--strict", case.file]) == (0 if is_whole else 6)
    source = Source("x.launcher.yaml", "yaml", case.job)
    assert format_text(source, parse_values(source)) == case.job
    (folder / "x.launcher.yaml").write_text(case.job)
    warns = any(mark in case.report for mark in (UNPINNED, "no shell reads"))
    assert main(["validate", *([] if warns else ["--strict"]), "x.launcher.yaml"]) == 0


def test_no_literal_secret_is_repeated():
    texts = {case.name: case.job + case.report for case in CASES}
    assert [(name, secret) for name, text in texts.items() for secret in SECRETS if secret in text] == []


def test_each_option_of_a_script_has_a_line_in_the_report():
    for case in cases("sbatch"):
        named = [f"--{name}" for name in read(Source(case.file, "yaml", case.given)).options]
        lines = [line[2:].split("=")[0].split(" ")[0] for line in case.report.splitlines()]
        assert lines[: len(named)] == named, case.name


@pytest.mark.parametrize("option", sampled(sorted(KNOWN), *sorted(KNOWN)[::4]))
def test_every_option_of_sbatch_has_a_place_or_a_reason(option, folder):
    (folder / "x.sbatch").write_text(f"#!/bin/bash\n#SBATCH --{option}=1\ntrue\n")
    made = convert("x.sbatch")
    (row,) = made.rows
    if option not in REFUSED:
        assert option in (*OWN_OPTION, "mem", "gpus", "gpus-per-node", "export") or row.fate == "the same"
    elif option not in ("array", "cpus-per-task", "gpus-per-task", "job-name", "ntasks"):
        assert row.fate == REFUSED[option]
        assert f"# no place: {row.option}" in made.text


COMMON = """
    array begin cpus-per-task dependency error exclusive export gpus gpus-per-task gpus-per-node hold licenses
    mail-type mail-user mem mem-per-cpu mem-per-gpu nodelist ntasks output reservation signal wait
"""


def test_the_table_has_every_letter_of_sbatch_or_its_long_name():
    seen = {name for case in cases("sbatch") for name in read(Source("x", "yaml", case.given)).options}
    assert {*OWN_OPTION, *COMMON.split()} - seen == set()


KEYS = sorted({*FIELDS, "command", "depends_on", "image", "labels"} - {"healthcheck"})


@pytest.mark.parametrize("key", sampled(KEYS, *KEYS[::4]))
def test_a_key_of_compose_with_any_value_is_a_clear_error_or_a_job(key, folder):
    for value in ("[[1]]", "{a: {b: [c]}}", "-1", "${A", "''", "x", "[{}]", "true", "1.5"):
        text = f"services:\n  a:\n    image: busybox:1\n    command: run\n    {key}: {value}\n"
        (folder / "compose.yaml").write_text(text)
        assert main(["convert", "compose.yaml"]) in (0, 1, 6), value


_SHELL = st.text(st.sampled_from("$<>{}app_id.x '\"\\\n\t-|&;#"), max_size=40)


@given(_SHELL)
@example(" ")
def test_a_script_arrives_as_it_was_written(text):
    source = Source("x.sbatch", "yaml", f"#!/bin/bash\n:\n{text}\n")
    (launch,) = launches(sbatch.convert(source).text())
    got = substitute(launch.app.roles[0].args[-1], {"app_id": "WRONG", "x": "WRONG"})
    assert got.strip("\n") == f":\n{text}".replace("\r", "\n").strip("\n")


@given(_SHELL)
def test_the_words_of_a_service_arrive_as_they_were_written(text):
    from launcher.convert.compose import convert as of_compose

    words = ["run", text.replace("$", "$$")]
    document = parse_values(Source("c/compose.yaml", "yaml", "services: {a: {image: 'i:1'}}\n"))
    document.value["services"]["a"]["command"] = words
    (launch,) = launches(of_compose(document).text())
    assert [substitute(each, {"app_id": "WRONG"}) for each in launch.app.roles[0].args] == [text]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(("name", "data", "code", "message"), [
    ("x.sbatch", b"#SBATCH -t 5\n\x00\x01\x02", 1, "x.sbatch:2: the character U+0000 is in no text file"),
    ("x.sbatch", b"\x7fELF\x02\x01\xff\xfe", 6, "is no UTF-8 text"),
    ("x.sbatch", "#SBATCH -t 5\n".encode("utf-16"), 6, "UTF-16"),
    ("x.sbatch", b"#SBATCH -t 5\n" + b"x" * (1 << 20), 6, "larger than 1 MiB"),
    ("x.sbatch", b"#SBATCH -t 5\n" + b"x\n" * 70_000, 1, "128 KiB"),
    ("x.sbatch", b"#!/bin/sh\n#SBATCH --comment='x\n", 1, "x.sbatch:2: the options cannot be read"),
    ("x.sbatch", b"#SBATCH hetjob\n", 1, "heterogeneous"),
    ("x.sbatch", b"#SBATCH -t soon\ntrue\n", 1, "a time such as 2h"),
    ("x.sbatch", b"echo\n", 64, "of no kind that convert knows"),
    ("compose.yaml", b"services: {}\n", 1, "has no services"),
    ("compose.yaml", b"services: {a: 1}\n", 6, "a service is a mapping"),
    ("compose.yaml", b"services: {a: {image: x, image: y}}\n", 6, "image"),
    ("compose.yaml", f"{BOMB}services: {{a: {{image: x}}}}\n".encode(), 6, "20,000"),
    ("compose.yaml", b"services: {a: {image: i, command: 'x \"'}}\n", 6, "cannot be read"),
    ("compose.yaml", b"services: {a: {image: i, command: '${A'}}\n", 6, "a `${` is not closed"),
    ("compose.yaml", b"services: {a: {image: i, command: x, mem_limit: big}}\n", 6, "`big` is no size"),
    ("compose.yaml", b"services: {a: {image: i, command: x, depends_on: [b]}}\n", 6, "which there is not"),
    ("k.yaml", b"apiVersion: v1\nkind: Pod\n", 64, "k.yaml is a Kubernetes manifest"),
    ("j.yaml", b"version: 1\nname: j\nroles: {}\n", 64, "is a job file already"),
    ("shop.yaml", f"{BOMB}services: {{a: {{image: x}}}}\n".encode(), 6, "20,000"),
    ("shop.yaml", b"services:\n\ta:\n\t\timage: x\n", 6, "shop.yaml:2:1"),
    ("shop.yml", b"name: x\nimage: y\n", 64, "shop.yml is of no kind that convert knows"),
    ("shop.toml", b"name = 'x'\n", 64, "shop.toml is of no kind that convert knows"),
    ("Procfile", b"web\n", 1, "Procfile:1: this line is no `NAME: COMMAND`"),
    ("Procfile", b"# all\n\nweb: x\nbad line\n", 1, "Procfile:4: this line is no `NAME: COMMAND`"),
    ("Procfile", b"web: x\nwork: y\nweb: z\n", 1, "Procfile:3: process `web` stands twice"),
    ("Procfile", b"", 1, "Procfile has no process"),
    ("Procfile", b"a_b: x\na-b: y\n", 1, "two names"),
])  # fmt: skip
def test_a_file_that_cannot_be_converted_is_a_clear_error(name, data, code, message, folder, capsys):
    (folder / name).write_bytes(data)
    assert main(["convert", name]) == code
    got = capsys.readouterr()
    assert message in got.err
    assert got.out == ""


def test_a_path_that_is_no_regular_file_is_a_clear_error(folder, capsys):
    (folder / "d.yaml").mkdir()
    os.mkfifo(folder / "p.yaml")
    whys = {"d.yaml": "Is a directory", "p.yaml": "a named pipe", "no.yaml": "there is no such file"}
    for name, message in whys.items():
        assert main(["convert", name]) == 6
        assert message in capsys.readouterr().err


def test_a_link_out_of_the_repository_is_not_read(folder, tmp_path, capsys):
    subprocess.run(["git", "init", "-q", "."], check=True)
    (tmp_path / "secret.yaml").write_text("services: {a: {image: 'secret:1'}}\n")
    (folder / "compose.yaml").symlink_to(tmp_path / "secret.yaml")
    assert main(["convert", "compose.yaml"]) == 6
    got = capsys.readouterr()
    assert "leads out of the repository" in got.err
    assert "secret:1" not in got.out + got.err


def test_no_environment_and_no_env_file_is_read(folder, monkeypatch, capsys):
    monkeypatch.setenv("TAG", "from-the-environment")
    (folder / ".env").write_text("TAG=from-a-file\n")
    text = "services: {a: {image: 'i:${TAG:-1}', command: '$TAG', env_file: .env}}\n"
    (folder / "compose.yaml").write_text(text)
    assert main(["convert", "compose.yaml"]) == 0
    got = capsys.readouterr()
    assert "from-" not in got.out + got.err
    assert "TAG: {type: str, from_env: TAG, default:" in got.out


WITH_DEFAULT = [
    *("user: '${WHO:-1000}'", "mem_limit: '${WHO:-2g}'", "cpus: '${WHO:-1.5}'",
        "ports: ['${WHO:-8000}:8000']"),
    *("working_dir: '${WHO:-/w}'", "stop_grace_period: '${WHO:-5s}'", "tmpfs: '${WHO:-/tmp}'"),
    *("volumes: ['/data:${WHO:-/data}']", "devices: ['${WHO:-/dev/fuse}']", "restart: '${WHO:-no}'"),
    "healthcheck: {test: 'true', interval: '${WHO:-5s}'}",
]  # fmt: skip


@pytest.mark.parametrize("field", WITH_DEFAULT)
def test_a_variable_whose_default_alone_is_kept_is_named_as_lost(field, folder, capsys):
    (folder / "compose.yaml").write_text(f"services: {{a: {{image: 'i:1', command: x, {field}}}}}\n")
    assert main(["convert", "--strict", "compose.yaml"]) == 6
    got = capsys.readouterr()
    lost = f"${{WHO}} in {field.split(':')[0]} of a: the job file has its default alone"
    assert f"no place: {lost}" in got.out
    assert lost in got.err


def test_a_server_that_nothing_ends_is_named_where_its_image_is_known(folder, capsys):
    text = "services: {cache: {image: 'redis:7.2'}, app: {image: 'i:1', command: x}}\n"
    (folder / "compose.yaml").write_text(text)
    assert main(["convert", "compose.yaml"]) == 0
    (launch,) = launches(capsys.readouterr().out)
    assert {role.name: role.service for role in launch.app.roles} == {"cache": True, "app": False}
    (folder / "compose.yaml").write_text("services: {cache: {image: 'redis:7.2'}}\n")
    assert main(["convert", "compose.yaml"]) == 0
    assert "`cache` may run without an end" in capsys.readouterr().out


def test_the_option_from_sets_the_format_of_a_file(folder, capsys):
    (folder / "run").write_text("#!/bin/bash\necho hi\n")
    assert main(["convert", "run"]) == 64
    assert main(["convert", "--from", "sbatch", "run"]) == 0
    assert "scheduler: slurm" in capsys.readouterr().out
    assert main(["convert", "run", "--from=procfile"]) == 1


def test_the_options_of_convert_are_laid_over_a_file(folder, capsys):
    (folder / "Procfile").write_text("web: ./serve\n")
    words = ["-c", "grace_s=3", "--name", "shop", "--workspace", ".", "-s", "local_cwd"]
    assert main(["convert", "Procfile", *words]) == 0
    (launch,) = launches(capsys.readouterr().out)
    assert (launch.key.job, launch.scheduler, launch.cfg["grace_s"]) == ("shop", "local_cwd", 3.0)
    (folder / "x.sbatch").write_text("#SBATCH -p gpu\ntrue\n")
    assert main(["convert", "x.sbatch", "-c", "qos=high"]) == 0
    assert "partition: gpu\n  qos: high" in capsys.readouterr().out
    assert main(["convert", "-s", "local_docker", "x.sbatch"]) == 64
    assert "becomes a job of slurm" in capsys.readouterr().err
    assert main(["convert", "--name", "No Name", "x.sbatch"]) == 64


def test_the_name_of_a_component_is_converted_unless_a_file_has_that_name(folder, capsys):
    assert main(["convert", "utils.sh", "--", "echo", "hi"]) == 0
    assert "echo" in capsys.readouterr().out
    Path("utils.sh").write_text("#SBATCH -t 5\ntrue\n")
    assert main(["convert", "utils.sh"]) == 0
    assert "scheduler: slurm" in capsys.readouterr().out


def test_errors_of_the_converter_are_launcher_errors(folder):
    (folder / "compose.yaml").write_text(
        "services: {a: {image: 'i:1', command: '$$<app_id>', healthcheck: {test: '$$<app_id>'}}}\n"
    )
    with pytest.raises(LauncherError, match="cannot be written as a job file"):
        convert("compose.yaml")
