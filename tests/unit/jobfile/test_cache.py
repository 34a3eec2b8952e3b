"""Kept outcomes of compiles: reused while nothing has changed, and never after a change."""

import marshal
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from launcher.cli import jobs
from launcher.cli.main import main
from launcher.jobfile.compile import compiled as lookup
from launcher.specs import canonical

JOB = """\
version: 1
name: NAME
roles: {main: {entrypoint: echo, args: [VALUE]}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jobs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that gets an item at each compile."""
    count: list[object] = []
    compile = jobs._compiled

    def counted(*args: object) -> object:
        count.append(args)
        return compile(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "_compiled", counted)
    return count


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str], compiles: list[object]) -> Callable[..., tuple[bool, str]]:
    """A function that runs `launcher plan`: whether it compiled nothing, and its output."""

    def run(*argv: str, command: str = "plan") -> tuple[bool, str]:
        before = len(compiles)
        main([command, *argv])
        shown = capsys.readouterr()
        return len(compiles) == before, shown.out + shown.err

    return run


def write(path: Path, name: str = "train", value: str = "a", more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JOB.replace("NAME", name).replace("VALUE", value) + more)
    return path


def cache() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"], "launcher")


def is_kept(plan: Callable[..., tuple[bool, str]], *argv: str) -> bool:
    """Return whether a third run is answered without compiling, after a second one that was."""
    plan(*argv)
    return plan(*argv)[0]


def test_an_unchanged_file_is_compiled_once(here, plan):
    write(here / "a.launcher.yaml")
    assert not plan("a.launcher.yaml")[0]
    assert plan("a.launcher.yaml")[0]
    assert not plan("a.launcher.yaml", command="validate")[0]
    assert plan("a.launcher.yaml", command="validate")[0]


@pytest.mark.parametrize("argv", [
    ["--var", "x=1"], ["--target", "dev"], ["--no-components"], ["--no-env-vars"], ["--allow-dirty"],
    ["--no-cache"], ["--var-file", "v.yaml"],
])  # fmt: skip
def test_a_job_is_compiled_again_for_another_command_line(here, plan, argv):
    (here / "v.yaml").write_text("x: 3\n")
    more = "vars: {x: {type: int, default: 2}}\ntargets: {dev: {description: a target}}\n"
    write(here / "a.launcher.yaml", value="$<var.x>", more=more)
    assert is_kept(plan, "a.launcher.yaml")
    assert not plan("a.launcher.yaml", *argv)[0]


def test_a_kept_launch_has_the_digest_of_its_document_and_a_changed_copy_has_none(here, compiles):
    file = write(here / "a.launcher.yaml", value="$<matrix.n>", more="matrix: {n: [1, 2]}\n")
    args = Namespace(target=None, allow_dirty=False, no_components=False, no_env_vars=False, var=[])
    args.var_file, args.no_cache = [], False
    fresh, kept = (jobs.compiled([str(file)], args).launches for _ in range(2))
    assert (len(compiles), kept) == (1, fresh)
    assert [each.digest for each in kept] == [canonical.digest(canonical.document(each)) for each in fresh]
    assert replace(kept[0], app=kept[1].app).digest == ""


@pytest.mark.parametrize(
    "value", [(), [], {}, [()], {"a": ()}, [[1, ("x", [])], {}], ({"a": [{"b": (1,)}]}, [2])]
)
def test_plain_data_gives_back_what_was_packed(value):
    assert lookup.unpacked(marshal.loads(marshal.dumps(lookup.packed(value)))) == value


CHANGES = YAML(typ="safe", pure=True).load(Path(__file__).with_name("cache.yaml"))


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_files_is_noticed(here, plan, monkeypatch, name):
    case = CHANGES[name]
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b")
    for path, job in case["files"].items():
        write(here / path, *job[:2], *(f"{line}\n" for line in job[2:]))
    subprocess.run(["sh", "-euc", case.get("before", "true")], check=True)
    argv = case["plan"].split()
    before = plan(*argv)[1]
    assert plan(*argv)[0]
    subprocess.run(["sh", "-euc", case["change"]], check=True)
    kept, after = plan(*argv)
    assert not kept
    assert case["shows"] in after != before


def test_a_variable_of_the_environment_is_compared_and_not_stored(here, plan, monkeypatch):
    more = "vars: {x: {type: str, default: a, from_env: SOME_SETTING}}\n"
    write(here / "a.launcher.yaml", value="$<var.x>", more=more)
    monkeypatch.setenv("SOME_SETTING", "first-value")
    assert is_kept(plan, "a.launcher.yaml")
    monkeypatch.setenv("SOME_SETTING", "second-value")
    kept, shown = plan("a.launcher.yaml")
    assert not kept
    assert "echo second-value" in shown
    monkeypatch.delenv("SOME_SETTING")
    assert "echo a" in plan("a.launcher.yaml")[1]


@pytest.mark.slow
def test_a_kept_outcome_names_the_line_of_a_shared_file_that_changes_jobs(here, plan):
    project = here / "launcher.toml"
    project.write_text('[defaults.role.env]\nLR = "one"\n')
    for name in ("a", "b"):
        write(here / f"{name}.launcher.yaml", name=name)
    assert main(["apply", ".", "--yes", "--wait"]) == 0
    project.write_text(project.read_text().replace("one", "two"))
    plan(".")
    _, compiled = plan(".", "--no-cache")
    assert "launcher.toml:2 changes 2 jobs" in compiled
    assert plan(".")[1] == compiled


def test_workspaces_inputs_and_watched_files_are_hashed_anew(here, plan):
    more = "workspace: code\ninputs: ['data/*.txt']\nlifecycle: {rerun_on: [{files: ['conf/*']}]}\n"
    write(here / "a.launcher.yaml", more=more)
    for path in ("code/train.py", "data/one.txt", "conf/settings"):
        (here / path).parent.mkdir()
        (here / path).write_text("one")
    assert is_kept(plan, "a.launcher.yaml", "--format", "json")
    for path in ("code/train.py", "data/one.txt", "data/two.txt", "conf/settings"):
        (here / path).write_text("two")
        assert not plan("a.launcher.yaml", "--format", "json")[0], path
        assert plan("a.launcher.yaml", "--format", "json")[0]


@pytest.mark.parametrize(("more", "environ"), [
    ("metadata: {api_key: abcdefgh}\n", {}),
    ("metadata: {note: 'run it with --token abcdefgh'}\n", {}),
    ('metadata: {"api\\u005fkey": abcdefgh}\n', {}),
    ("vars: {x: {type: str, default: a, from_env: HF_TOKEN}}\ndescription: $<var.x>\n",
        {"HF_TOKEN": "abcdefgh"}),
    ("vars: {x: {type: str, default: a, from_env: SETTING}}\ndescription: $<var.x>\n",
        {"SETTING": "TOKEN=abcdefgh"}),
])  # fmt: skip
def test_values_under_names_that_look_like_secrets_are_not_kept(here, plan, monkeypatch, more, environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    write(here / "a.launcher.yaml", more=more)
    assert not is_kept(plan, "a.launcher.yaml")
    assert not is_kept(plan, "a.launcher.yaml", "--format", "json")
    assert [path.name for path in cache().iterdir()] == ["key"]


def test_a_value_of_the_command_line_under_the_name_of_a_secret_is_not_kept(here, plan):
    write(here / "a.launcher.yaml", value="$<var.x>", more="vars: {x: {type: str}}\n")
    assert not is_kept(plan, "a.launcher.yaml", "--var", "x=--token=abcdefgh")
    assert [path.name for path in cache().iterdir()] == ["key"]


def test_a_reference_to_a_secret_is_kept(here, plan):
    env = "{HF_TOKEN: {secret: 'env:HF_TOKEN'}}"
    (here / "a.launcher.yaml").write_text(
        f"version: 1\nname: train\nroles: {{main: {{entrypoint: env, env: {env}}}}}\n"
    )
    assert is_kept(plan, "a.launcher.yaml")


def test_files_with_components_are_not_kept(here, plan):
    (here / "a.launcher.yaml").write_text("version: 1\nname: a\ncomponent: utils.echo\nargs: {msg: hello}\n")
    assert not is_kept(plan, "a.launcher.yaml")


def test_nothing_is_kept_in_ci(here, plan, monkeypatch):
    monkeypatch.setenv("CI", "true")
    write(here / "a.launcher.yaml")
    assert not is_kept(plan, "a.launcher.yaml")
    assert not cache().exists()


def test_the_folder_and_its_files_are_private(here, plan):
    write(here / "a.launcher.yaml")
    before = os.umask(0)
    try:
        plan("a.launcher.yaml")
    finally:
        os.umask(before)
    assert cache().stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache().iterdir()} == {0o600}


def entries() -> list[Path]:
    return [path for path in cache().iterdir() if path.name != "key"]


def link(path: Path) -> None:
    """Put a link into the place of a file or folder."""
    path.symlink_to(path.rename(cache().parent / f"{path.name}-elsewhere"))


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
OF_ANOTHER = pytest.param(lambda path: os.chown(path, 12345, -1), marks=AS_ROOT)


@pytest.mark.parametrize("damage", [
    lambda entry: entry.write_bytes(entry.read_bytes()[:-1]),
    lambda entry: entry.write_bytes(b""),
    lambda entry: entry.write_bytes(entry.read_bytes()[:20] + b"\xff" + entry.read_bytes()[21:]),
    lambda entry: entry.write_bytes(entry.read_bytes() + b"more"),
    lambda entry: entry.write_bytes(os.urandom(entry.stat().st_size)),
    lambda entry: entry.with_name("key").write_bytes(b"short"),
    lambda entry: entry.chmod(0o620), link, OF_ANOTHER,
])  # fmt: skip
def test_an_entry_that_the_user_did_not_write_like_this_is_replaced(here, plan, damage):
    write(here / "a.launcher.yaml")
    assert is_kept(plan, "a.launcher.yaml")
    [entry] = entries()
    damage(entry)
    assert not plan("a.launcher.yaml")[0]
    assert plan("a.launcher.yaml")[0]


@pytest.mark.parametrize("damage", [lambda folder: folder.chmod(0o770), link, OF_ANOTHER])
def test_a_folder_that_others_may_change_is_ignored(here, plan, damage):
    write(here / "a.launcher.yaml")
    assert is_kept(plan, "a.launcher.yaml")
    damage(cache())
    assert not is_kept(plan, "a.launcher.yaml")


def test_an_entry_under_the_name_of_another_is_ignored(here, plan):
    write(here / "a.launcher.yaml")
    write(here / "b.launcher.yaml", name="other")
    plan("a.launcher.yaml")
    [first] = entries()
    plan("b.launcher.yaml")
    [second] = {*entries()} - {first}
    shutil.copy(first, second)
    kept, shown = plan("b.launcher.yaml")
    assert not kept
    assert "other" in shown


def test_a_file_in_the_place_of_the_folder_is_no_error(here, plan):
    write(here / "a.launcher.yaml")
    cache().parent.mkdir(parents=True, exist_ok=True)
    cache().write_text("")
    assert not is_kept(plan, "a.launcher.yaml")
    assert cache().read_text() == ""


def test_a_full_disk_is_no_error(here):
    write(here / "a.launcher.yaml")
    command = [sys.executable, "-m", "launcher", "validate", "a.launcher.yaml"]

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(command, preexec_fn=full, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "valid: 1 job\n")
    assert [path.name for path in cache().iterdir()] == []


def test_a_cache_variable_that_is_no_absolute_path_is_left_alone(here, plan, monkeypatch):
    write(here / "a.launcher.yaml")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert is_kept(plan, "a.launcher.yaml")
    assert [path.name for path in here.iterdir()] == ["a.launcher.yaml"]
    assert Path.home().joinpath(".cache", "launcher").is_dir()


def test_the_least_recently_used_entries_make_room(here, plan, monkeypatch):
    for name in "abcd":
        write(here / f"{name}.launcher.yaml", name=name)
        plan(f"{name}.launcher.yaml")
    known = {path.name for path in cache().iterdir()}
    oldest = min(entries(), key=lambda path: path.stat().st_mtime)
    past = time.time() - 7200
    for path in cache().iterdir():
        os.utime(path, (past + 60 * (path != oldest), past + 60 * (path != oldest)))
    from launcher import cachefolder

    monkeypatch.setattr(cachefolder, "MOST_ENTRIES", 4)
    write(here / "e.launcher.yaml", name="e")
    plan("e.launcher.yaml")
    assert known - {path.name for path in cache().iterdir()} == {oldest.name}
    assert len([*cache().iterdir()]) == 5


RACE = """
import os, shutil, sys
from launcher.cli.main import main
for turn in range(int(sys.argv[1])):
    code = main(["plan", "."])
    assert code == 0, code
    if turn % 5 == 4:
        shutil.rmtree(os.path.join(os.environ["XDG_CACHE_HOME"], "launcher"), ignore_errors=True)
"""


@pytest.mark.slow
def test_eight_processes_that_also_delete_the_cache_folder_compile_the_file_as_it_is(here):
    write(here / "a.launcher.yaml", value="first")
    command = [sys.executable, "-c", RACE, "10"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0
        assert out.count("echo first") == 10


@pytest.mark.slow
def test_a_file_that_changes_all_the_time_never_gives_an_older_outcome(here):
    """A plan that begins after a write shows that write or a later one."""
    file = write(here / "a.launcher.yaml", value="0")
    command = [sys.executable, "-m", "launcher", "plan", "a.launcher.yaml"]
    for turn in range(1, 7):
        beside = write(here / "beside", value=str(turn))
        os.replace(beside, file)
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            assert f"echo {turn} " in process.communicate()[0].decode()


@pytest.mark.slow
def test_a_killed_command_leaves_no_wrong_entry(here, plan):
    write(here / "a.launcher.yaml")
    command = [sys.executable, "-m", "launcher", "validate", "a.launcher.yaml"]
    for delay_ms in range(0, 400, 20):
        shutil.rmtree(cache(), ignore_errors=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay_ms / 1000)
        process.kill()
        process.wait()
        assert "valid: 1 job" in plan("a.launcher.yaml", command="validate")[1]


_LOADED = (
    "import sys; from launcher.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_an_unchanged_file_is_answered_without_the_libraries_of_the_compiler(here, command):
    write(here / "a.launcher.yaml")
    run = [sys.executable, "-c", _LOADED, command, "a.launcher.yaml"]
    for _ in range(2):
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    loaded = {*done.stderr.split()}
    assert not loaded & {"pydantic", "pydantic_core", "ruamel", "ruamel.yaml", "jsonschema", "rich", "tomli"}
    heavy = ("launcher.jobfile.model", "launcher.jobfile.messages")
    assert not {name for name in loaded if name.startswith(heavy)}
