"""`launcher fmt`: what is written, what is left alone, and what the exit code says."""

import os

import pytest

from launcher.cli import fmt
from launcher.errors import LauncherError
from launcher.jobfile.format import Unformattable

MESSY = "name: 'job'   # mine\nversion: 1\nroles: {main: {num_replicas: 2, entrypoint: sh, args: [-c, w]}}\n"
TIDY = 'version: 1\nname: "job"   # mine\nroles: {main: {entrypoint: sh, args: [-c, w], num_replicas: 2}}\n'


@pytest.fixture
def messy(scenario):
    return scenario.write("job.launcher.yaml", MESSY)


def test_a_file_is_rewritten_once_and_its_job_stays_kept(scenario, messy):
    scenario.run_to_end(messy)
    assert scenario.launcher("fmt").out == "formatted ./job.launcher.yaml\n"
    assert messy.read_text() == TIDY
    assert scenario.actions(messy) == {"job": "keep"}
    assert scenario.launcher("fmt", messy).err == "1 file unchanged\n"


def test_check_writes_nothing_shows_the_change_and_fails(scenario, messy):
    done = scenario.launcher("fmt", "--check", messy, code=1)
    assert "-name: 'job'   # mine\n" in done.out
    assert '+name: "job"   # mine\n' in done.out
    assert done.err == "1 file would change\n"
    assert messy.read_text() == MESSY
    assert os.listdir(scenario.folder) == ["job.launcher.yaml"]
    scenario.launcher("fmt")
    assert scenario.launcher("fmt", "--check").out == ""


def test_a_bad_file_is_reported_and_the_other_files_are_still_formatted(scenario, messy):
    bad = scenario.write("bad.launcher.yaml", "a: [\n")
    done = scenario.launcher("fmt", code=6)
    assert "error[yaml-syntax]" in done.err
    assert (messy.read_text(), bad.read_text()) == (TIDY, "a: [\n")


def test_a_file_with_unknown_fields_is_formatted_all_the_same(scenario):
    path = scenario.write("job.launcher.yaml", "nmae:   job\n")
    scenario.launcher("fmt")
    assert path.read_text() == "nmae: job\n"


def test_nothing_to_format_is_an_error(scenario):
    assert "no job file" in scenario.launcher("fmt", code=6).err
    assert "no such file" in scenario.launcher("fmt", "gone.launcher.yaml", code=6).err


def test_fmt_refuses_a_json_file(scenario):
    path = scenario.write("job.json", '{"name": "a", "version": 1}')
    assert "JSON" in scenario.launcher("fmt", path, code=1).err


def test_mode_links_and_byte_order_marks_survive(scenario):
    target = scenario.folder / "real.yaml"
    target.write_bytes(b"\xef\xbb\xbf" + MESSY.encode())
    target.chmod(0o640)
    link = scenario.folder / "job.launcher.yaml"
    link.symlink_to("real.yaml")
    scenario.launcher("fmt", link)
    assert link.is_symlink()
    assert target.read_bytes() == b"\xef\xbb\xbf" + TIDY.encode()
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_digest_that_would_change_stops_the_write(messy):
    [found], _ = fmt.prepare([str(messy)])
    other = fmt.Rewrite(found.file, found.path, found.before, found.after.replace("-c", "-x"))
    with pytest.raises(Unformattable, match="digest"):
        fmt.write(other)
    assert messy.read_text() == MESSY
    assert os.listdir(messy.parent) == ["job.launcher.yaml"]


def test_a_file_written_meanwhile_is_not_overwritten(messy):
    [found], _ = fmt.prepare([str(messy)])
    messy.write_text("version: 1\n")
    with pytest.raises(Unformattable, match="changed while it was formatted"):
        fmt.write(found)
    assert messy.read_text() == "version: 1\n"


def test_temporary_files_of_killed_commands_are_replaced_or_removed(scenario, messy):
    for name in (f".{os.getpid()}-{messy.name}", f".1-{messy.name}"):
        messy.with_name(name).touch()
        os.utime(messy.with_name(name), (0, 0))
    os.utime(messy.with_name(f".{os.getpid()}-{messy.name}"))
    [found], _ = fmt.prepare([str(messy)])
    fmt.write(found)
    assert os.listdir(messy.parent) == ["job.launcher.yaml"]
    assert messy.read_text() == TIDY


def test_a_folder_that_cannot_be_written_is_an_error_with_the_file(messy, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    [found], _ = fmt.prepare([str(messy)])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LauncherError, match=r"job\.launcher\.yaml: No space left"):
        fmt.write(found)
    assert os.listdir(messy.parent) == ["job.launcher.yaml"]
    assert messy.read_text() == MESSY


def test_every_example_is_in_its_canonical_form(scenario):
    from tests.conftest import ROOT

    done = scenario.launcher("fmt", "--check", ROOT / "examples", code=None)
    assert (done.code, done.out) == (0, "")
