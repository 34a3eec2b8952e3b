"""The start of an app: create, go, and every way in which they can fail."""

import os
from pathlib import Path

import pytest

from launcher.schedulers.local import appview, rundir
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh


@pytest.mark.parametrize("message", [b"", b"\xff\xff\0\0half"], ids=["before", "within"])
def test_a_client_that_hangs_up_before_or_within_its_create_ends_the_supervisor(app, message):
    app.socket.sendall(message)
    app.hang_up()
    assert app.exited() == 0
    assert (app.view.state, app.view.lock_held, app.errors) == ("reserved", False, "")


def test_a_client_that_hangs_up_before_go_leaves_nothing(app: Driven, tmp_path: Path) -> None:
    logs = tmp_path / "mine" / "logs"
    app.create(app.role("main", ["true"], log_dir=str(logs)), attached=True)
    assert logs.exists()
    app.hang_up()
    assert app.exited() == 0
    assert appview.read_state(app.app_dir) is None
    assert os.listdir(os.path.dirname(app.app_dir)) == []
    assert not (tmp_path / "mine").exists()


def test_a_wrong_executable_or_directory_is_reported(supervise: Supervise, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    for argv, cwd, text in (
        ([str(plain)], None, f"not executable: {plain}"),
        (["./plain"], str(tmp_path), f"not executable: {tmp_path}/./plain"),
        ([str(tmp_path)], None, f"no such executable: {tmp_path}"),
        (["true"], "/no/where", "no such working directory: /no/where"),
        ([""], None, "the entrypoint is empty"),
    ):
        driven = supervise()
        assert driven.create(driven.role("main", argv, cwd=cwd))["error"] == text
        assert driven.exited() == 0


def test_a_working_directory_that_is_removed_after_its_check_is_reported(app: Driven, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    assert app.create(app.role("main", ["true"], cwd=str(folder))) == {"ok": "created"}
    folder.rmdir()
    assert app.go()["error"] == f"no such working directory: {folder}"
    assert app.exited() == 0


def test_a_replica_that_cannot_start_takes_the_whole_app_back(app: Driven, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("no #! line here")
    script.chmod(0o755)
    logs = tmp_path / "logs"
    assert app.create(
        app.role("main", *[["sleep", "1000"]] * 3, log_dir=str(logs)), app.role("bad", [str(script)])
    ) == {"ok": "created"}
    answer = app.go()
    assert answer["error"] == f"{script}: Exec format error"
    assert (answer["role"], answer["k"], answer["argv"]) == ("bad", 0, [str(script)])
    assert app.exited() == 0
    assert appview.read_state(app.app_dir) is None
    assert app.left() == []
    assert not logs.exists()


def test_logs_of_another_run_are_neither_mixed_nor_removed(app: Driven, tmp_path: Path) -> None:
    old = tmp_path / "main" / "0" / rundir.COMBINED
    old.parent.mkdir(parents=True)
    old.write_text("precious")
    answer = app.create(app.role("main", ["true"], log_dir=str(tmp_path)))
    assert answer["error"] == f"{old.parent} already holds the logs of another run"
    assert app.exited() == 0
    assert old.read_text() == "precious"


@pytest.mark.parametrize(("place", "why"), [
    ("file", "Not a directory"), ("/proc/none", "No such file or directory"),
    ("made/{long}", "File name too long"),
])  # fmt: skip
def test_a_log_folder_that_cannot_be_made_is_an_error_and_leaves_no_folder(app, tmp_path, place, why):
    (tmp_path / "file").write_text("")
    folder = tmp_path / place.format(long="x" * 300)
    answer = app.create(app.role("main", ["true"], log_dir=str(folder)))
    assert answer["error"] == f"cannot make the folder {folder}/main/0: {why}"
    assert not (tmp_path / "made").exists()


def test_an_app_that_was_started_is_never_started_again(supervise: Supervise) -> None:
    first = supervise("again")
    assert first.run(first.role("main", sh("echo once"))).state == "succeeded"
    second = supervise("again")
    assert second.create(second.role("main", ["true"]))["error"] == "local_cwd://test/app was started before"
    assert second.exited() == 0
    assert (first.view.state, first.log()) == ("succeeded", "once\n")


def test_more_replicas_than_files_allow_are_refused(app: Driven) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if not 0 < hard <= 30_000:
        pytest.skip("the hard limit of open files is too high to reach")
    answer = app.create(app.role("main", *[["true"]] * (hard // 2)))
    assert "ulimit -Hn" in answer["error"]
    assert answer["role"] is None


def test_a_client_that_dies_after_go_changes_nothing_for_a_detached_app(app: Driven) -> None:
    from launcher.schedulers import loop

    app.create(app.role("main", *[["true"]] * 20))
    loop.send(app.socket.fileno(), {"op": "go"})
    app.hang_up()
    assert app.ended().state == "succeeded"
