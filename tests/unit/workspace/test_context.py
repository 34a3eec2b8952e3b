"""The digest of a workspace: what changes it, and what does not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.workspace import WorkspaceError, content_digest
from launcher.workspace.context import entries


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "sub").mkdir(parents=True)
    (made / "train.py").write_text("print(1)\n")
    (made / "sub" / "data.bin").write_bytes(b"\0\1\2")
    (made / "link").symlink_to("train.py")
    return made


def digest(folder: Path) -> str:
    return content_digest(str(folder))


def test_the_digest_names_its_algorithm_and_never_changes(folder: Path):
    """A change here would re-run every job with a workspace."""
    assert digest(folder) == "ws1:sha256:26cc0b5b2f455e539b4b4d17660aadb144097d16f8af2c3d23987e9f353c59b6"


def test_the_same_contents_elsewhere_have_the_same_digest(folder: Path, tmp_path: Path):
    other = tmp_path / "another checkout"
    shutil.copytree(folder, other, symlinks=True)
    os.utime(other / "train.py", (0, 0))
    (other / "train.py").chmod(0o600)
    (other / "empty" / "folders").mkdir(parents=True)
    assert digest(other) == digest(folder)


CHANGES = {
    "another content": lambda at: (at / "train.py").write_text("print(2)\n"),
    "a new file": lambda at: (at / "sub" / "new").touch(),
    "a removed file": lambda at: (at / "sub" / "data.bin").unlink(),
    "another name": lambda at: (at / "train.py").rename(at / "main.py"),
    "a program": lambda at: (at / "train.py").chmod(0o755),
    "another link": lambda at: ((at / "link").unlink(), (at / "link").symlink_to("sub")),
    "a file in place of a link": lambda at: ((at / "link").unlink(), (at / "link").write_text("train.py")),
    "a name that is no text": lambda at: Path(os.fsdecode(bytes(at) + b"/\xff")).touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_that_a_run_could_notice_changes_the_digest(folder: Path, change):
    before = digest(folder)
    change(folder)
    assert digest(folder) != before


def test_ignored_files_pipes_and_records_of_launcher_do_not_count(folder, monkeypatch):
    before = digest(folder)
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".launcherignore").write_text("outputs\n")
    monkeypatch.setenv("LAUNCHER_HOME", str(folder / ".state"))
    for name in ("sub/__pycache__/data.pyc", "outputs/model.pt", ".state/ledger.db"):
        (folder / name).parent.mkdir()
        (folder / name).touch()
    os.mkfifo(folder / "pipe")
    assert digest(folder) == before


def test_links_are_not_followed(folder: Path, tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (folder / "away").symlink_to(tmp_path / "outside")
    (folder / "nowhere").symlink_to("not/there")
    (folder / "circle").symlink_to(".")
    before = digest(folder)
    (tmp_path / "outside" / "new").touch()
    assert digest(folder) == before


def test_files_come_in_the_order_of_their_bytes(folder: Path):
    for name in ("é", "Z", "a", "sub.x"):
        (folder / name).touch()
    paths = [entry.path for entry in entries(str(folder))]
    assert paths == ["Z", "a", "link", "sub.x", "sub/data.bin", "train.py", "é"]


def test_a_large_workspace_is_hashed_like_a_small_one(folder: Path, monkeypatch: pytest.MonkeyPatch):
    one_by_one = digest(folder)
    monkeypatch.setattr("launcher.workspace.context._MANY_BYTES", 0)
    assert digest(folder) == one_by_one


def test_a_path_that_is_no_folder_is_an_error(folder: Path):
    for path, why in [("no", "No such file or directory"), ("train.py", "Not a directory")]:
        with pytest.raises(WorkspaceError, match=why):
            digest(folder / path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_an_error_with_a_way_out(folder: Path):
    (folder / "train.py").chmod(0)
    with pytest.raises(WorkspaceError) as failed:
        digest(folder)
    assert ".launcherignore" in (failed.value.hint or "")
