"""Every good file has no diagnostics, and has one digest in YAML, in TOML and after `launcher fmt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.jobfile.format import Unformattable, format_text
from launcher.jobfile.text.document import Source, source_of
from launcher.jobfile.text.parse import parse
from launcher.specs import digest, document
from tests.corpus.words import FOLDER, GOOD, compiled, jobs_of, name_of
from tests.lanes import sampled

EXAMPLES = FOLDER.parents[1] / "examples"
REFUSED = {"explicit-keys-and-tags.launcher.yaml"}
"""What `launcher fmt` has no canonical form for. It says so, and leaves the file alone."""
TWINS = [path for path in GOOD if path.name.endswith("-toml.launcher.toml")]


def digests(path: Path) -> list[str]:
    """Return the digests of the jobs of a file, in order."""
    return [digest(document(launch)) for launch in compiled(path).launches]


@pytest.mark.parametrize("path", sampled(GOOD, *GOOD[::4]), ids=name_of)
def test_a_good_file_gives_jobs_and_no_diagnostics(path: Path) -> None:
    result = compiled(path)
    assert result.diagnostics == ()
    assert result.launches


def test_the_examples_and_all_good_files_together_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--strict", str(EXAMPLES), str(FOLDER / "good")]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("path", TWINS, ids=name_of)
def test_yaml_and_toml_of_one_job_have_one_digest(path: Path) -> None:
    twin = path.with_name(path.name.replace("-toml.launcher.toml", ".launcher.yaml"))
    assert digests(path) == digests(twin), f"{twin.name} is the same job: change both"


@pytest.mark.parametrize("path", sampled(GOOD, *GOOD[::4]), ids=name_of)
def test_formatting_keeps_the_digest_and_a_second_run_changes_nothing(path: Path) -> None:
    before = read(path, path.read_bytes())
    if path.name in REFUSED:
        with pytest.raises(Unformattable):
            format_text(before, parse(before))
        return
    text = format_text(before, parse(before))
    after = read(path, text.encode())
    assert [digest(document(each)) for each in jobs_of(path, after)] == digests(path)
    assert format_text(after, parse(after)) == text


def read(path: Path, data: bytes) -> Source:
    source = source_of(path.name, data)
    assert isinstance(source, Source)
    return source
