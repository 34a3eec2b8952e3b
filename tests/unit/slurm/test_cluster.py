"""Requests to a cluster, here and over a stand-in for ssh that runs what it is given on this machine."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator

import pytest

from launcher.errors import SchedulerError, StateError
from launcher.schedulers.packing import unpack
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.ssh import Ssh, _between
from launcher.state.records import AppRecord
from launcher.workspace.archive import archive

SSH = """#!/bin/sh
echo "$@" >>"$SSH_LOG"
for last; do :; done
case "$*" in *"-O check"*) exit ${OWN_MASTER:-255};; *"-O "*) exit 0;; esac
[ -z "$SSH_FAILS" ] || { echo "Warning: a new key"; echo "$SSH_FAILS" >&2; exit 255; }
cd "$SSH_HOME" && HOME="$SSH_HOME" exec bash -c '[ ! -e .bashrc ] || . ./.bashrc; eval "$0"' "$last"
"""
SBATCH = "#!/bin/sh\nexit 1\n"


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A home on the other side of a stand-in for ssh."""
    home = tmp_path / "there"
    home.mkdir()
    program(tmp_path / "bin", "ssh", SSH)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_HOME", str(home))
    monkeypatch.setenv("SSH_LOG", str(tmp_path / "calls"))
    with tempfile.TemporaryDirectory(dir="/tmp") as run:  # the path of a socket is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", run)
        yield home


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A home on this machine, which has Slurm's commands."""
    program(tmp_path / "bin", "sbatch", SBATCH)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


@pytest.mark.slow
def test_one_request_takes_one_connection_and_no_part_of_it_is_on_the_command_line(there, tmp_path):
    cluster = Cluster(("login1", "~/jobs; touch it"))
    first, second = cluster.call({"op": "outputs"}, {"op": "make_output", "name": "x"})
    assert (first, second) == ({"outputs": []}, {"folder": str(there / "jobs; touch it" / "outputs" / "x")})
    sent = [line for line in calls(tmp_path) if "-O " not in line]
    assert len(sent) == 1
    assert "BatchMode=yes" in sent[0]
    assert "jobs" not in sent[0]


@pytest.mark.parametrize("version", ["", "3.6", "3.7", "3.9", "3.13"])
def test_the_agent_needs_only_the_python_of_the_login_node(there, tmp_path, version):
    python = shutil.which(f"python{version}") if version else sys.executable
    if python is None or subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL):
        pytest.skip(f"there is no Python {version}")
    program(tmp_path / "bin", "python3", f'#!/bin/sh\nexec "{python}" -IS "$@"\n')
    about = {"app_id": "a-1", "nonce": "n1"}
    reservation = {"op": "reserve", "app_id": "a-1", "record": {}, "owner": {"nonce": "n1"}}
    unknown = {"op": "cancel", "app_id": "b-1"}
    ops = [
        reservation, {"op": "start", **about}, {"op": "events", **about}, {"op": "abort", **about}, unknown,
    ]  # fmt: skip
    ops += [{"op": "remove", **about}, {"op": "wait", "app_ids": [], "seconds": 0}]
    found = Cluster(("login1", "~")).call(*ops, {"op": "observe", "app_ids": None}, {"op": "outputs"})
    assert found[0] == {"resumed": False}
    assert found[1]["message"] == "a-1 has not been created"
    assert found[2:6] == [{"events": []}, {"removed": True}, {"is": "unknown"}, {"removed": False}]
    assert found[6:] == [
        {"apps": {}, "missing": [], "queue": found[6]["queue"]},
        {"apps": {}, "queued": []},
        {"outputs": []},
    ]


def test_a_request_may_be_larger_than_any_command_line(there):
    found = Cluster(("login1", "~")).call({"op": "remove", "app_id": "x" * (1 << 21)})
    assert found[0]["error"] == "state"


def test_the_connection_is_shared_and_closed(there, tmp_path):
    cluster = Cluster(("login1", "~"))
    cluster.ask("outputs")
    cluster.close()
    cluster.close()
    check, sent, stop = calls(tmp_path)
    assert f"ControlPath={os.environ['XDG_RUNTIME_DIR']}/launcher/ssh/%C" in sent
    assert ("-O check" in check, "-O stop" in stop) == (True, True)


def test_a_socket_with_a_long_path_lies_elsewhere(there, tmp_path, monkeypatch):
    (tmp_path / ("x" * 60)).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 60)))
    Cluster(("login1", "~")).ask("outputs")
    assert f"ControlPath=/tmp/launcher-{os.geteuid()}/ssh/%C" in calls(tmp_path)[1]


def test_a_connection_that_the_user_keeps_open_is_used(there, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_MASTER", "0")
    cluster = Cluster(("login1", "~"))
    cluster.ask("outputs")
    cluster.close()
    assert not [line for line in calls(tmp_path) if "ControlPath" in line or "-O stop" in line]


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "", "a b", "a\nb"])
def test_text_that_can_be_no_host_is_refused_before_anything_runs(there, tmp_path, host):
    with pytest.raises(SchedulerError, match="name of a host"):
        Ssh(host)
    assert not (tmp_path / "calls").exists()


def test_a_failed_connection_says_what_ssh_reported_last(there, monkeypatch):
    monkeypatch.setenv("SSH_FAILS", "login1: Permission denied (publickey).")
    with pytest.raises(SchedulerError) as error:
        Cluster(("login1", "~")).ask("outputs")
    assert str(error.value) == "cannot reach login1: login1: Permission denied (publickey)."
    assert "ssh login1 true" in str(error.value.hint)


def startup(there, text):
    """The file that the login shell reads first."""
    (there / ".bashrc").write_text(text + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "echo Welcome to {the} cluster", "printf 'no newline'", """printf '{"ok": [{"outputs": ["x"]}]}'""",
    "trap 'echo bye; echo bye >&2' EXIT", "trap 'printf bye' EXIT", "trap 'exit 3' EXIT",
    "echo oh >&2; set -e; set -u",
])  # fmt: skip
def test_startup_files_of_the_login_shell_do_no_harm(there, text, workspace):
    startup(there, text)
    cluster = Cluster(("login1", "~/jobs"))
    assert cluster.ask("outputs") == {"outputs": []}
    assert (put(cluster, there, workspace) / "workspace" / "run.sh").exists()


@pytest.mark.parametrize(
    "text", ["", "echo oh >&2", "trap 'echo bye >&2; exit 0' EXIT", "printf 'no newline' >&2"]
)
def test_a_program_that_fails_is_heard_through_startup_files(there, text):
    startup(there, text)
    for program in (b"raise ValueError('no')", b"import sys; sys.exit('ValueError: no')"):
        with pytest.raises(SchedulerError, match=r"^login1: ValueError: no$"):
            Ssh("login1").run(program)


@pytest.mark.parametrize("text", ["exit 0", "exit 3", "exec cat >/dev/null", "echo hello; exit 0"])
def test_a_startup_file_that_ends_the_shell_is_named(there, text):
    startup(there, text)
    with pytest.raises(SchedulerError, match="cut off") as error:
        Cluster(("login1", "~")).ask("outputs")
    assert "login1:~/.bashrc" in str(error.value.hint)


def test_output_that_is_no_answer_is_an_error(there, monkeypatch):
    cluster = Cluster(("login1", "~"))
    monkeypatch.setattr("launcher.schedulers.slurm.cluster.text_of", lambda name: b"print('{\"ok\": [')")
    with pytest.raises(SchedulerError, match="gave no answer"):
        cluster.ask("outputs")


def test_without_slurm_and_without_a_host_both_ways_are_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SchedulerError, match="no `sbatch` on this machine") as error:
        Cluster(("", "~/x")).ask("outputs")
    assert "`host`" in str(error.value.hint)
    assert "LAUNCHER_SLURM_HOST" in str(error.value.hint)


# Workspaces


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub" / "ü\n").write_bytes(b"\0\xff" * 200_000)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "data.tmp").write_text("left out")
    (folder / ".launcherignore").write_text("*.tmp\n")
    return folder


def put(cluster, home, workspace):
    (home / "jobs" / "apps" / "train-1-x").mkdir(parents=True)
    cluster.put("train-1-x", archive(str(workspace)))
    return home / "jobs" / "apps" / "train-1-x"


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_workspace_arrives_unchanged_without_ignored_files_and_replaces_an_earlier_copy(
    request, where, workspace
):
    home, cluster = request.getfixturevalue(where), Cluster(("login1" if where == "there" else "", "~/jobs"))
    (workspace / "gone").touch()
    app_dir = put(cluster, home, workspace)
    (workspace / "gone").unlink()
    cluster.put("train-1-x", archive(str(workspace)))
    found = app_dir / "workspace"
    assert os.listdir(app_dir) == ["workspace"]
    assert sorted(os.listdir(found)) == ["link", "run.sh", "sub"]
    assert (found / "sub" / "ü\n").read_bytes() == b"\0\xff" * 200_000
    assert os.readlink(found / "link") == "/etc/passwd"
    assert os.access(found / "run.sh", os.X_OK)


def test_a_workspace_for_an_app_that_does_not_exist_is_an_error(here, there, workspace):
    for host in ("", "login1"):
        with pytest.raises(SchedulerError, match="cannot unpack the workspace"):
            Cluster((host, "~/jobs")).put("train-9-x", archive(str(workspace)))


def tarred(*members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name, kind, target in members:
            about = tarfile.TarInfo(name)
            about.type, about.linkname, about.mode = kind, target, 0o4777
            made.addfile(about)
    file.seek(0)
    return file


@pytest.mark.parametrize("members", [
    [("/x", tarfile.REGTYPE, "")], [("../x", tarfile.REGTYPE, "")], [("a/../../x", tarfile.REGTYPE, "")],
    [("out", tarfile.SYMTYPE, ".."), ("out/x", tarfile.REGTYPE, "")],
    [("x", tarfile.LNKTYPE, "../../other")], [("x", tarfile.FIFOTYPE, "")],
])  # fmt: skip
def test_no_member_of_an_archive_leaves_the_workspace(tmp_path, members):
    app_dir = tmp_path / "apps" / "a"
    app_dir.mkdir(parents=True)
    with pytest.raises(ValueError, match=r"unexpected member|behind a link"):
        unpack(tarred(*members), str(tmp_path), "a")
    assert os.listdir(app_dir) == []
    assert [path.name for path in tmp_path.rglob("x")] == []


def test_a_stream_that_ends_early_leaves_the_workspace_that_was_there(tmp_path, workspace):
    app_dir = tmp_path / "apps" / "a"
    (app_dir / "workspace").mkdir(parents=True)
    cut = io.BytesIO(b"".join(archive(str(workspace)))[:100_000])
    with pytest.raises(tarfile.ReadError):
        unpack(cut, str(tmp_path), "a")
    assert os.listdir(app_dir) == ["workspace"]


def test_a_setuid_file_loses_that_mode_in_a_workspace(tmp_path):
    (tmp_path / "apps" / "a").mkdir(parents=True)
    unpack(tarred(("x", tarfile.REGTYPE, "")), str(tmp_path), "a")
    assert (tmp_path / "apps" / "a" / "workspace" / "x").stat().st_mode & 0o7777 == 0o755


# The clusters that this state folder knows


def row(app_id, **fields):
    return AppRecord("slurm", "p", app_id, name="train", created_at=1.5, **fields)


def test_a_state_folder_that_has_never_seen_a_cluster_knows_none(launcher_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (known.places(), known.app_ids(), known.is_in_use()) == ([], [], False)
    assert known.place_of_app("train-1-x") is None
    assert list(known.apps()) == []
    assert not launcher_home.exists()


def test_a_state_folder_remembers_the_clusters_of_its_apps(launcher_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    known.remember([row("train-1-x", key=("p", "default", "train"), number=1)], ("login1", "~/a"))
    known.remember([row("sim-x")], ("", "/b"))
    assert sorted(known.places()) == [("", "/b"), ("login1", "~/a")]
    assert known.place_of_app("train-1-x") == ("login1", "~/a")
    assert known.place_of_app("../clusters") is None
    found = {app.app_id: (app.handle, app.key, app.number, live) for app, live in known.apps()}
    assert found == {
        "train-1-x": ("slurm://p/train-1-x", ("p", "default", "train"), 1, True),
        "sim-x": ("slurm://p/sim-x", ("", "", ""), None, True),
    }
    known.forget("sim-x")
    known.forget("sim-x")
    assert known.app_ids() == ["train-1-x"]


def test_a_damaged_note_of_an_app_is_ignored(launcher_home):
    known.remember([row("sim-x")], ("", "/b"))
    for text in ("", "[]", "{", json.dumps({"host": 1})):
        (launcher_home / "slurm" / "places" / "sim-x").write_text(text)
        assert known.place_of_app("sim-x") is None
        assert list(known.apps()) == []


def test_notes_of_apps_that_older_versions_wrote_are_read(launcher_home):
    known.remember([row("new-x"), row("old-x")], ("", "/b"))
    notes = launcher_home / "slurm"
    (notes / "apps" / "there-x").mkdir(parents=True)  # LAUNCHER_HOME/slurm is the `job_dir` of a cluster
    (notes / "places" / "old-x").rename(notes / "apps" / "old-x")
    assert known.app_ids() == ["new-x", "old-x"]
    assert known.place_of_app("old-x") == ("", "/b")
    assert known.place_of_app("there-x") is None
    many = ["old-x", "there-x", *(f"other-{k}" for k in range(10))]
    assert known.places_of(many) == {each: ("", "/b") if each == "old-x" else None for each in many}
    assert known.noted_at("old-x") is not None
    assert known.noted_at("there-x") is None
    known.forget("old-x")
    known.forget("there-x")
    assert known.app_ids() == ["new-x"]
    assert (notes / "apps" / "there-x").is_dir()


def test_the_variable_names_the_login_node_of_jobs_that_name_none(monkeypatch, launcher_home):
    monkeypatch.setenv("LAUNCHER_SLURM_HOST", "login1")
    assert known.place_of({}) == ("login1", "~/.launcher/slurm")
    assert known.place_of({"host": "login2", "job_dir": "/x/"}) == ("login2", "/x")
    assert known.places() == [("login1", "~/.launcher/slurm")]
    assert known.is_in_use()


def test_this_machine_counts_when_it_has_slurm_and_apps(here, launcher_home):
    assert known.places() == []
    (here / ".launcher" / "slurm" / "apps").mkdir(parents=True)
    assert known.places() == [("", "~/.launcher/slurm")]


def test_a_state_folder_that_cannot_be_written_is_reported(launcher_home):
    launcher_home.write_text("a file")
    with pytest.raises(StateError):
        known.remember([row("sim-x")], ("", "/b"))


MARK = b"abcabd"


def taken(pieces: list[bytes]) -> tuple[bytes, bool]:
    found: list[bytes] = []

    def run() -> Iterator[bool]:
        yield (yield from _between(MARK, pieces))

    for each in run():
        if isinstance(each, bool):
            return b"".join(found), each
        found.append(each)
    raise AssertionError("it returned nothing")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 100])
@pytest.mark.parametrize("inside", [b"", b"x", b"abcab", b"abcabcab", b"a tar archive\0" * 20])
def test_the_bytes_between_two_marks_arrive_whole(inside: bytes, size: int) -> None:
    text = b"welcome" + MARK + inside + MARK + b"\ngood bye"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert taken(pieces) == (inside, True)


def test_an_output_that_was_cut_off_is_not_whole() -> None:
    assert taken([b"welcome" + MARK + b"half of"])[1] is False
    assert taken([b"welcome"]) == (b"", False)
