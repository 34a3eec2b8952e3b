"""A job file of any checkout compiles within bounds, and its references stay inside of the repository."""

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from launcher.jobfile.compile.files import Environment, compile_files
from launcher.jobfile.messages.collector import spelt_alike
from launcher.specs import AppDef, Role, check_app

ROLE = "roles:\n  main:\n    entrypoint: env\n"
JOB = "version: 1\nname: job\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with a file beside it that does not belong to it."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    (tmp_path / "outside.launcher.yaml").write_text("t0ps3cret: [\n")
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def wording(*paths: str, **environment) -> list[str]:
    found = compile_files(paths, environment=Environment(**environment), placeholders=True)
    return [f"{d.place} {d.code} {d.message}" for d in found.diagnostics]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")
def test_a_checkout_in_memory_may_be_a_workspace(monkeypatch: pytest.MonkeyPatch):
    with TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.chdir(folder)
        (Path(folder) / "job.launcher.yaml").write_text(JOB + ROLE + "workspace: .\n")
        assert wording("job.launcher.yaml") == []
        monkeypatch.chdir("/")


def test_an_app_from_python_has_the_same_bound():
    [found] = check_app(AppDef("a", [Role("r", "", entrypoint="e", num_replicas=1_000_000)]))
    assert found.path == ("roles", "r", "num_replicas")


def test_a_special_file_named_like_a_job_file_is_not_opened(repo: Path):
    os.mkfifo("a.launcher.yaml")
    os.symlink("/dev/zero", "b.launcher.toml")
    (repo / "c.launcher.yml").mkdir()
    (repo / "jobs").mkdir()
    os.mkfifo("jobs/launcher.toml")
    (repo / "jobs" / "d.launcher.yaml").write_text(JOB + ROLE)
    lines = wording(".", "c.launcher.yml")
    assert [line.split(": ", 1)[-1] for line in lines[1:]] == [
        "it is a named pipe",
        "./b.launcher.toml unreadable the file is a link that leads out of the repository",
    ]


@pytest.mark.parametrize("name", ["job.launcher.yaml", "launcher.toml", "folder/outside.launcher.yaml"])
def test_a_link_out_of_the_repository_shows_no_text_of_its_target(repo: Path, name: str):
    (repo / "folder").symlink_to("..")
    if "/" not in name:
        (repo / name).symlink_to("../outside.launcher.yaml")
    (repo / "good.launcher.yaml").write_text(JOB + ROLE)
    found = compile_files([name if name.endswith("yaml") else "good.launcher.yaml"]).diagnostics
    assert [d.message for d in found] == ["the file is a link that leads out of the repository"]
    assert "t0ps3cret" not in "".join(d.render() for d in found)


def test_a_link_inside_of_the_repository_is_a_job_file(repo: Path):
    (repo / "job.yaml").write_text(JOB + ROLE)
    (repo / "job.launcher.yaml").symlink_to("job.yaml")
    assert wording("job.launcher.yaml") == []


@pytest.mark.slow
def test_a_long_variable_in_many_places_is_one_error(repo: Path):
    args = "".join("      - x$<var.long>\n" for _ in range(5000))
    text = f"vars: {{long: {{type: str, default: {'x' * 100_000}}}}}\n" + ROLE + "    args:\n" + args
    (repo / "job.launcher.yaml").write_text(JOB + text)
    [line] = wording("job.launcher.yaml")
    assert "too-large references make the texts of this job larger than 1 MiB" in line


def test_a_matrix_under_many_targets_is_bounded(repo: Path):
    targets = "".join(f"  t{k}: {{timeout: 1h}}\n" for k in range(160))
    text = ROLE + "matrix: {a: {range: [0, 256]}}\ntargets:\n" + targets
    (repo / "job.launcher.yaml").write_text(JOB + text)
    [line] = wording("job.launcher.yaml")
    assert line.startswith("job.launcher.yaml:7:1 too-large `targets` makes 40,960 jobs")


@pytest.mark.parametrize("text", [
    "    env: {HF_TOKEN: t0ps3cret, LR: $<nothing>}\n",
    '    args: [--db-password, t0ps3cret, "$<nothing>"]\n',
    "    args: [-c, 'HF_TOKEN=t0ps3cret run $<nothing>']\n",
    "    args: [--token t0ps3cret $<nothing>]\n",
    "    env:\n      HF_TOKEN:\n        t0ps3cret$<nothing>\n",
    "    args:\n    - --token\n    - t0ps3cret$<nothing>\n",
    "    env:\n      HF_TOKEN: |\n        t0ps3cret $<nothing>\n",
    "    metadata: {cmd: API_KEY=t0ps3cret $<nothing>}\n",
])  # fmt: skip
def test_an_excerpt_shows_no_secret_beside_the_mistake(repo: Path, text: str):
    (repo / "job.launcher.yaml").write_text(JOB + ROLE + text)
    found = compile_files(["job.launcher.yaml"], placeholders=True).diagnostics
    assert any(d.code == "unknown-reference" for d in found)
    assert "t0ps3cret" not in "".join(d.render() for d in found)


def test_the_value_of_a_secret_variable_is_in_no_diagnostic(repo: Path):
    text = "vars: {token: {type: int, from_env: HF_TOKEN}, key: {type: str, from_env: API_KEY}}\n"
    text += ROLE + "    image: $<var.token>\n    retry_policy: $<var.key>\n"
    (repo / "job.launcher.yaml").write_text(JOB + text)
    environ = {"HF_TOKEN": "t0ps3cret", "API_KEY": "t0ps3cret" * 20}
    found = compile_files(["job.launcher.yaml"], environment=Environment(environ=environ)).diagnostics
    assert {"wrong-type", "secret-variable", "unknown-variant"} & {d.code for d in found}
    assert "t0ps3cret" not in "".join(d.render() for d in found)


def unlike(count: int) -> list[str]:
    """Return names of eight letters that are not alike."""
    letters = str.maketrans("0123456789", "ghijklmnop")
    return [sha256(str(number).encode()).hexdigest()[:8].translate(letters) for number in range(count)]


def _jobs(names: list[str], fields: str) -> str:
    role = "roles: {main: {entrypoint: env}}"
    return "version: 1\njobs:\n" + "".join(f"  {name}: {{{fields.format(name)}, {role}}}\n" for name in names)


def _lines(head: str, names: list[str], line: str) -> str:
    return JOB + head + "".join(f"{line.format(name)}\n" for name in names)


FAULTY: dict[str, Callable[[list[str]], str]] = {
    "removals that find nothing": lambda names: _lines(ROLE + "remove:\n", names, "- roles.main.env.{}"),
    "unknown needs": lambda names: _jobs(names, "needs: [{}x]"),
    "unknown roles": lambda names: _lines(
        "roles:\n", names, "  {0}: {{entrypoint: env, depends_on: [{0}x]}}"
    ),
    "missing inputs": lambda names: _lines(ROLE + "inputs:\n", names, "- {}"),
    "unknown fields": lambda names: _lines(ROLE, names, "{}: 1"),
    "empty fields": lambda names: _lines(ROLE, names, "{}:"),
    "fields in jobs": lambda names: _jobs(names, "{}: 1"),
    "references": lambda names: _lines("roles:\n  main:\n    run: |\n", names, "      echo $<{}>"),
    "hosts": lambda names: _lines("roles:\n", names, "  {0}: {{entrypoint: env, args: [$<role.{0}x.host>]}}"),
    "targets": lambda names: _lines(ROLE + "targets:\n", names, "- {}"),
    "faults in defaults": lambda names: _lines(ROLE + "defaults:\n  role:\n", names, "    {}: 1"),
    "secrets": lambda names: _lines(ROLE + "    env:\n", names, "      TOKEN_{0}: {0}"),
}


def calls_of_compile(text: str) -> int:
    """Return the number of calls of functions, of C's too, that a compile of this job file makes."""
    Path("job.launcher.yaml").write_text(text)
    spelt_alike.cache_clear()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        compile_files(["job.launcher.yaml"], environment=Environment())
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("kind", FAULTY)
def test_the_work_of_a_compile_grows_no_faster_than_the_number_of_faults(repo: Path, kind: str):
    calls_of_compile(JOB + ROLE)  # what one process does once
    small, large = (calls_of_compile(FAULTY[kind](unlike(count))) for count in (300, 600))
    assert large < 2.5 * small
