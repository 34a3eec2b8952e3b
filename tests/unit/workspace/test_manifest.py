"""The files that a workspace held: kept by its digest, for plans that name the changed files."""

import os
from pathlib import Path

import pytest

from launcher import paths
from launcher.workspace import content_digest, manifest
from launcher.workspace.manifest import amount, changed_files, is_large, keep, known, largest


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    forget(monkeypatch)


def forget(monkeypatch):
    """Forget all manifests in memory, as another process has none."""
    monkeypatch.setattr(manifest, "_known", {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "src"
    made.mkdir()
    for name in ("a.py", "b.py", "run.sh"):
        (made / name).write_text(name)
    os.symlink("a.py", made / "link")
    return made


def test_changed_files_are_named(folder):
    old = content_digest(str(folder))
    (folder / "a.py").write_text("other")
    (folder / "b.py").unlink()
    (folder / "sub").mkdir()
    (folder / "sub" / "new.py").write_text("x")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").unlink()
    os.symlink("b.py", folder / "link")
    new = content_digest(str(folder))
    found = changed_files(known(old), known(new))
    assert found == [("~", "a.py"), ("-", "b.py"), ("~", "link"), ("~", "run.sh"), ("+", "sub/new.py")]


def test_a_manifest_is_kept_for_later_processes_and_private_to_the_user(folder, monkeypatch):
    (folder / os.fsdecode(b"\xff")).write_text("no UTF-8")
    digest = content_digest(str(folder))
    before = known(digest)
    keep(digest)
    forget(monkeypatch)
    assert known(digest) == before
    [file] = Path(paths.workspaces()).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_workspace_that_is_not_on_record_is_not_known(folder, monkeypatch):
    digest = content_digest(str(folder))
    forget(monkeypatch)
    assert known(digest) is None
    keep(digest)  # nothing to keep
    assert not os.path.exists(paths.workspaces())


DAMAGED = ["", "{", "[]", "[" * 100_000, '{"version": 2}', '{"version": 1, "digest": "other", "files": {}}']


@pytest.mark.parametrize("text", [*DAMAGED, '{"version": 1, "digest": "DIGEST", "files": []}'])
def test_a_damaged_manifest_counts_as_missing(folder, monkeypatch, text):
    digest = content_digest(str(folder))
    keep(digest)
    [file] = Path(paths.workspaces()).iterdir()
    file.write_text(text.replace("DIGEST", digest))
    forget(monkeypatch)
    assert known(digest) is None


def test_the_state_folder_does_not_grow_without_end(folder, monkeypatch):
    monkeypatch.setattr(manifest, "MOST_KEPT", 3)
    digests = []
    for number in range(5):
        (folder / "a.py").write_text(str(number))
        digests.append(content_digest(str(folder)))
        keep(digests[-1])
        os.utime(manifest._path(digests[-1]), (number, number))
        keep(digests[0])  # what is used stays
        killed = Path(f"{manifest._path(digests[0])}.{number}-1.new")
        killed.touch()
        os.utime(killed, (0, 0))
    forget(monkeypatch)
    assert [known(digest) is not None for digest in digests] == [True, False, False, True, True]
    assert len(os.listdir(paths.workspaces())) <= 4  # the last one that was killed, too


def test_a_manifest_that_cannot_be_kept_is_no_error(folder, monkeypatch, tmp_path):
    (tmp_path / "home").write_text("a file")
    keep(content_digest(str(folder)))


def test_amounts_are_shown_in_readable_units():
    files = {f"{n}": manifest.File("file", 43_022_000, "") for n in range(22_460)}
    assert amount(files) == "22,460 files, 966 GB"
    assert amount({"a": manifest.File("file", 999, "")}) == "1 file, 999 B"
    assert amount({"a": manifest.File("file", 999_700, "")}) == "1 file, 1.0 MB"
    assert amount({}) == "0 files, 0 B"


def test_the_largest_part_of_a_workspace_is_named_with_the_pattern_that_leaves_it_out():
    data = {"data/x": manifest.File("file", 200_000_000, ""), "src/a.py": manifest.File("file", 10, "")}
    assert is_large(data)
    assert largest(data) == ("data/ (200 MB)", "data")
    many = {f"node_modules/{n}": manifest.File("file", 1, "") for n in range(12_000)}
    assert is_large(many)
    many["x.bin"] = manifest.File("file", 90_000, "")
    assert largest(many) == ("node_modules/ (12,000 files)", "node_modules")
    assert not is_large({"a": manifest.File("file", 10, "")})


@pytest.mark.parametrize(
    "name", [".venv", "data", "a*b", "#cache", "!odd", "[x]", "with blank", "back\\slash"]
)
def test_the_advised_pattern_leaves_out_that_part_and_nothing_else(folder, monkeypatch, name):
    monkeypatch.setattr(manifest, "LARGE_BYTES", 1000)
    (folder / name).mkdir()
    (folder / name / "big").write_text("x" * 2000)
    (folder / "axb").write_text("stays")
    before = known(content_digest(str(folder)))
    (folder / ".launcherignore").write_text(largest(before)[1] + "\n")
    after = known(content_digest(str(folder)))
    assert changed_files(before, after) == [("-", f"{name}/big")]
