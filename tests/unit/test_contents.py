"""Digests of output folders: equal for a folder and its archive, different for every change."""

import os
from pathlib import Path

import pytest

from launcher.schedulers import contents
from launcher.schedulers.contents import CONTENTS, SIZES, TOO_MANY, TOO_SLOW, output_digest
from launcher.schedulers.docker.outputs import archive_digest
from launcher.schedulers.packing import packed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    (made / "deep" / "empty").mkdir(parents=True)
    (made / "model").write_bytes(b"1" * 3000)
    (made / "deep" / "caf\udce9").write_text("")
    (made / "run.sh").write_text("true")
    (made / "run.sh").chmod(0o755)
    (made / "last").symlink_to("model")
    return made


def test_a_folder_and_its_archive_have_one_digest(folder: Path) -> None:
    digest = output_digest(str(folder))
    assert digest.startswith(CONTENTS)
    below = (piece for piece in packed(str(folder.parent)))
    assert archive_digest(below, "out") == digest


def test_every_change_of_path_kind_and_content_changes_the_digest(folder: Path) -> None:
    seen = {output_digest(str(folder))}
    for change in (
        lambda: (folder / "model").write_bytes(b"2" * 3000),
        lambda: (folder / "model").rename(folder / "model2"),
        lambda: (folder / "run.sh").chmod(0o644),
        lambda: ((folder / "last").unlink(), (folder / "last").symlink_to("model2")),
        lambda: ((folder / "last").unlink(), (folder / "last").write_text("model2")),
    ):
        change()
        seen.add(output_digest(str(folder)))
    assert len(seen) == 6
    os.utime(folder / "model2", (1, 1))
    assert output_digest(str(folder)) in seen


def test_beyond_the_bound_sizes_count_and_an_archive_has_no_digest(folder, monkeypatch):
    monkeypatch.setattr(contents, "MOST_BYTES", 2000)
    monkeypatch.setattr("launcher.schedulers.docker.outputs.MOST_BYTES", 2000)
    digest = output_digest(str(folder))
    assert digest.startswith(SIZES)
    (folder / "model").write_bytes(b"2" * 3000)
    assert output_digest(str(folder)) == digest
    (folder / "model").write_bytes(b"2" * 3001)
    assert output_digest(str(folder)) != digest
    assert "too much to hash" in archive_digest(iter(packed(str(folder.parent))), "out")


def test_a_folder_that_cannot_be_hashed_has_a_reason_instead(folder, monkeypatch):
    assert output_digest(str(folder), most_s=-1) == TOO_SLOW
    assert output_digest(str(folder / "gone")) == "it could not be read: No such file or directory"
    monkeypatch.setattr(contents, "MOST_FILES", 3)
    assert output_digest(str(folder)) == TOO_MANY


def test_pipes_and_empty_folders_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert output_digest(str(tmp_path)) == ""
