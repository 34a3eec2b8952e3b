"""The files that `inputs` names: their digest, their list by file, and changes that a holder finds."""

import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import paths
from launcher.schedulers.local import comparison
from launcher.schedulers.loop import pack
from launcher.specs.inputs import InputFiles, changes, named
from launcher.specs.launch import InputRef
from launcher.workspace import WorkspaceError, inputs
from launcher.workspace.inputs import InputReader, changed_since, keep, known

GLOBS = ("train.py", "conf/**/*.yaml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("train.py", "conf/a.yaml", "conf/deep/b.yaml", "notes.txt"):
        file = tmp_path / "one" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "one"


def digest(folder: Path, *globs: str) -> str:
    return InputReader().read(str(folder), globs or GLOBS, str(folder))[0]


def files(folder: Path, *globs: str) -> list[str]:
    return sorted(InputReader().read(str(folder), globs, str(folder))[1].files)


def ref(folder: Path, *globs: str) -> InputRef:
    return InputRef(digest(folder, *globs), str(folder), str(folder), globs or GLOBS)


def test_two_checkouts_have_one_digest_whatever_the_order_of_globs(checkout: Path):
    other = shutil.copytree(checkout, checkout.parent / "two" / "deeper")
    os.utime(other / "train.py", (1, 1))
    (other / "train.py").chmod(0o700)
    assert digest(checkout) == digest(other, *reversed(GLOBS), "train.py")
    assert digest(checkout).startswith("in1:sha256:")


CHANGES = {
    "content": lambda at: (at / "train.py").write_text("other"),
    "added": lambda at: (at / "conf/c.yaml").touch(),
    "removed": lambda at: (at / "conf/a.yaml").unlink(),
    "renamed": lambda at: (at / "conf/a.yaml").rename(at / "conf/z.yaml"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_gives_another_digest(checkout: Path, change):
    before = digest(checkout)
    assert digest(checkout, *GLOBS, "later.csv") != before
    change(checkout)
    assert digest(checkout) != before


def test_files_outside_of_the_globs_do_not_count(checkout: Path):
    before = digest(checkout)
    (checkout / "notes.txt").write_text("other")
    assert digest(checkout) == before


def test_the_inputs_of_a_folder_leave_out_files_of_git_and_python_caches(checkout: Path):
    for name in (".git/index", "conf/__pycache__/a.pyc"):
        (checkout / name).parent.mkdir()
        (checkout / name).touch()
    assert files(checkout, ".") == ["conf/a.yaml", "conf/deep/b.yaml", "notes.txt", "train.py"]


def test_names_of_any_bytes_have_a_digest_and_can_be_printed(checkout: Path):
    for name in (b"a\nb.yaml", b"\xff.yaml", b"\x1b[31m.yaml", "\u202e.yaml".encode()):
        Path(os.fsdecode(bytes(checkout / "conf") + b"/" + name)).touch()
    before = InputFiles(GLOBS, {})
    text = changes(before, InputReader().read(str(checkout), GLOBS, str(checkout))[1])
    assert text.isprintable()
    text.encode()


def test_a_link_inside_is_followed_and_a_link_out_of_the_repository_is_refused(checkout: Path):
    (checkout / "conf/link.yaml").symlink_to("../notes.txt")
    before = digest(checkout)
    (checkout / "notes.txt").write_text("other")
    assert digest(checkout) != before
    (checkout / "conf/out.yaml").symlink_to("/etc/passwd")
    with pytest.raises(WorkspaceError, match="leads out of the repository"):
        digest(checkout)


@pytest.mark.parametrize("link", ["file", "folder", "version"])
def test_links_below_a_named_folder_are_followed_within_the_repository(checkout: Path, link: str):
    for path in ("store/one/a.csv", "data/v1/a.csv", "data/v2/a.csv"):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(path)
    (checkout / "data/file.csv").symlink_to("../store/one/a.csv")
    (checkout / "data/folder").symlink_to("../store")
    (checkout / "data/version").symlink_to("v1")
    before = digest(checkout, "data")
    if link == "version":
        (checkout / "data/version").unlink()
        (checkout / "data/version").symlink_to("v2")
    else:
        (checkout / f"data/{link}{'.csv' if link == 'file' else '/one/a.csv'}").write_text("other")
    assert digest(checkout, "data") != before


def test_links_below_a_named_folder_that_go_round_or_lead_out_do_not_count(checkout: Path):
    before = files(checkout, "conf")
    (checkout / "conf/deep/round").symlink_to("..")
    (checkout / "conf/all").symlink_to("..")
    (checkout / "conf/out").symlink_to("/etc")
    (checkout / "conf/nowhere").symlink_to("not/there")
    inside = ["notes.txt", "train.py"]
    assert files(checkout, "conf") == sorted([*before, *(f"conf/all/{path}" for path in [*before, *inside])])


@pytest.mark.parametrize("glob", ["../x", "/etc/passwd", "/etc/*"])
def test_a_glob_of_a_saved_plan_does_not_leave_the_repository(checkout: Path, glob: str):
    with pytest.raises(WorkspaceError, match="leaves the repository"):
        digest(checkout, glob)


def test_a_file_that_cannot_be_read_is_an_error(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("launcher.workspace.seen.file_hash", refuse)
    (checkout / "train.py").write_text("never read before")
    with pytest.raises(WorkspaceError, match=r"train\.py: Permission denied"):
        digest(checkout)


def test_a_plan_of_many_jobs_walks_each_glob_and_reads_each_file_once(checkout, monkeypatch):
    read: list[str] = []
    walked: list[str] = []
    real, walk = inputs.contents, inputs.matches
    monkeypatch.setattr(inputs, "matches", lambda *args: walked.append(args[1]) or walk(*args))
    monkeypatch.setattr(inputs, "contents", lambda *args: read.append(args[1]) or real(*args))
    reader = InputReader()
    assert len({reader.read(str(checkout), GLOBS, str(checkout))[0] for _ in range(1000)}) == 1
    assert (sorted(walked), sorted(read)) == (sorted(GLOBS), sorted(GLOBS))


def test_the_list_of_files_survives_the_process_and_is_private(checkout: Path, launcher_home: Path):
    made = digest(checkout)
    keep(made)
    inputs._known.clear()
    found = known(made)
    assert sorted(found.files) == ["conf/a.yaml", "conf/deep/b.yaml", "train.py"]
    [stored] = Path(paths.workspaces()).iterdir()
    assert stored.stat().st_mode & 0o777 == 0o600


def test_a_list_that_was_edited_is_not_believed(checkout: Path, launcher_home: Path):
    made = digest(checkout)
    keep(made)
    inputs._known.clear()
    [stored] = Path(paths.workspaces()).iterdir()
    stored.write_text(stored.read_text().replace("train.py", "other.py"))
    assert known(made) is None
    (checkout / "train.py").write_text("edited")
    assert changed_since(ref(checkout)._replace(digest=made)) == "its input files changed"


def test_a_holder_names_the_files_that_changed(checkout: Path, launcher_home: Path):
    asked = ref(checkout)
    assert changed_since(asked) == ""
    (checkout / "train.py").write_text("edited")
    (checkout / "conf/c.yaml").touch()
    assert changed_since(asked, "meanwhile") == "conf/c.yaml (new) and train.py changed meanwhile"
    shutil.rmtree(checkout)
    assert "conf/a.yaml (removed)" in changed_since(asked)


def test_a_process_of_its_own_compares_inputs_for_a_supervisor(checkout: Path, launcher_home: Path):
    asked = ref(checkout)
    keep(asked.digest)
    (checkout / "train.py").write_text("edited")
    argv = [sys.executable, "-I", "-S", "-c", paths.program(comparison.__name__)]
    request = pack(("", "", "", "", *asked[:3], *asked.globs))
    env = {"LAUNCHER_HOME": str(launcher_home)}
    argv.append(str(os.getpid()))
    done = subprocess.run(argv, env=env, input=request, capture_output=True, check=True)
    assert marshal.loads(done.stdout[4:]) == ("", "train.py changed while it waited or ran")


def test_at_most_ten_files_are_named():
    old = InputFiles(("*",), {f"{n:02}.py": "1" for n in range(13)})
    new = InputFiles(("*",), {f"{n:02}.py": "2" for n in range(13)})
    text = changes(old, new, "since attempt 4")
    assert text.startswith("00.py, 01.py, ")
    assert text.endswith("09.py and 3 more changed since attempt 4")
    assert named(["a"]) == "a"
    assert named(["a", "b"]) == "a and b"


def test_changes_name_added_and_removed_globs_too():
    old, new = InputFiles(("a", "b"), {"a": "1"}), InputFiles(("a", "c"), {"a": "1"})
    assert changes(old, new) == "`inputs` now has `c`; `inputs` no longer has `b`"
