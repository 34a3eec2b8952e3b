"""Components of job files: which may run, and errors of those that end their process."""

import os
from pathlib import Path

import pytest

from launcher.components.finder import builtin_component
from launcher.jobfile.compile.files import Compiled, Environment, compile_files
from tests import processes

HEAD = "import os, sys, signal, subprocess, time\nfrom launcher.specs import AppDef, Role\n"
JOB = "version: 1\nname: job\ncomponent: {}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "repo").mkdir()
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def compiled(folder: Path, body: str, *, name: str = "c.py:f", top: str = "", **environment) -> Compiled:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "c.py").write_text(f"{HEAD}{top}\ndef f() -> AppDef:\n{lines}")
    (folder / "job.launcher.yaml").write_text(JOB.format(name))
    return compile_files(["job.launcher.yaml"], environment=Environment(**environment))


def pids_in(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def wording(result: Compiled) -> list[str]:
    return [f"{d.place} {d.code} {d.message}" for d in result.diagnostics]


@pytest.mark.parametrize(("body", "message"), [
    ("os._exit(0)", "ended its process with exit code 0 instead of returning an AppDef"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
    ("if os.fork():\n    os._exit(3)\ntime.sleep(60)", "ended its process with exit code 3"),
    ("sys.exit(0)", "failed: SystemExit: 0, line 5 of"),
    ("raise KeyboardInterrupt", "failed: KeyboardInterrupt"),
    ("return AppDef('x' * (1 << 25), [Role('a', '', entrypoint='e')])", "app of more than 16 MiB"),
    ("for fd in range(3, 512):\n    try: os.write(fd, b'{}\\n')\n    except OSError: 0\nos._exit(0)",
        "answered with something else than an app"),
    ("return AppDef('a', [Role('a', '', entrypoint='e', metadata={'x': sys})])",
        "roles.a.metadata.x: want text, numbers, lists and mappings"),
])  # fmt: skip
def test_a_component_that_ends_its_process_is_an_error_at_its_place(folder: Path, body: str, message: str):
    [line] = wording(compiled(folder, body))
    assert line.startswith("job.launcher.yaml:3:12 invalid-value component `c.py:f`")
    assert message in line


@pytest.mark.slow
def test_a_component_that_does_not_end_is_killed_with_all_it_started(folder, monkeypatch):
    monkeypatch.setenv("LAUNCHER_COMPONENT_TIMEOUT", "2")
    body = "p = subprocess.Popen(['sleep', '1000'])\n"
    body += "open('pids', 'w').write(f'{os.getpid()} {p.pid}')\np.wait()"
    [line] = wording(compiled(folder, body))
    assert "took longer than 2 s and was killed" in line
    assert processes.gone(pids_in(folder), timeout_s=60)


def test_processes_that_a_component_started_end_with_the_compile(folder: Path):
    body = "p = subprocess.Popen(['sleep', '1000'])\nopen('pids', 'a').write(f'{p.pid} ')\n"
    result = compiled(folder, body + "return AppDef('a', [Role('a', '', entrypoint='e')])")
    assert len(result.launches) == 1
    assert len(pids_in(folder)) == 2
    assert processes.gone(pids_in(folder), timeout_s=60)


def test_nothing_of_a_component_file_runs_in_this_process(folder: Path):
    result = compiled(folder, "return AppDef('a', [Role('a', '', entrypoint=str(os.getpid()))])")
    assert result.launches[0].app.roles[0].entrypoint != str(os.getpid())


@pytest.mark.parametrize("name", ["../outside.py:f", "link.py:f", "folder/outside.py:f", "/etc/passwd:f"])
def test_a_component_file_outside_of_the_repository_is_refused(folder: Path, name: str):
    (folder.parent / "outside.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    (folder / "link.py").symlink_to("../outside.py")
    (folder / "folder").symlink_to("..")
    [line] = wording(compiled(folder, "pass", name=name))
    assert "lies outside of the repository" in line
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("name", ["c.py:f", "../c.py:f", "os.path.join", "mine.own"])
def test_components_are_refused_where_they_may_not_run(folder, monkeypatch, name):
    for environment in ({"components": False}, {}):
        monkeypatch.setenv("LAUNCHER_COMPONENTS", "always" if environment else "never")
        [line] = wording(compiled(folder, "pass", name=name, top="open('ran', 'w')", **environment))
        assert line.startswith(f"job.launcher.yaml:3:12 component-refused component `{name}` is not called")
    assert not (folder / "ran").exists()


def test_components_of_ours_run_everywhere(folder: Path):
    result = compiled(folder, "pass", name="utils.echo", components=False)
    assert result.diagnostics == ()
    assert result.launches[0].app.roles[0].entrypoint


def test_a_word_that_launcher_components_does_not_know_is_an_error(folder, monkeypatch):
    from launcher.errors import UsageError

    monkeypatch.setenv("LAUNCHER_COMPONENTS", "nver")
    with pytest.raises(UsageError, match="LAUNCHER_COMPONENTS is `nver`"):
        compiled(folder, "pass")


def test_a_component_name_too_deep_to_import_is_no_component_of_ours() -> None:
    assert builtin_component("utils" + ".sls" * 5000) is None
