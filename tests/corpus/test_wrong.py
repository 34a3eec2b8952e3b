"""Each wrong job file of the table gets messages that lead to the right file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from launcher.jobfile import render
from tests.corpus.wrong_rows import MARKS, compiled, mark, meaning, pasted, read_rows
from tests.lanes import sampled

ROWS = [*read_rows()]
COMPONENT = """\
from launcher.specs import AppDef, Role


def train() -> AppDef:
    \"\"\"Train.\"\"\"
    return AppDef(name="train", roles=[Role(name="main", image="", entrypoint="train")])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the jobs, files and folders that the rows name."""
    folder = tmp_path_factory.mktemp("wrong")
    for name in (".git", "src", "data"):
        (folder / name).mkdir()
    for name in ("prepare", "fetch"):
        role = 'main: {run: "echo >$<output_dir>/a"}'
        (folder / f"{name}.launcher.yaml").write_text(f"version: 1\nname: {name}\nroles: {{{role}}}\n")
    for name in ("conf.yaml", "data.csv"):
        (folder / name).write_text("")
    (folder / "train.py").write_text(COMPONENT)
    return folder


@pytest.mark.parametrize("row", sampled(ROWS, *ROWS[::4]), ids=lambda row: row.name)
def test_the_advice_for_a_wrong_file_has_its_listed_mark_and_the_right_file_is_clean(folder, row):
    found = compiled(folder, row.file, row.text("-")).diagnostics
    shown = render(found)
    assert [f"{each.code} {each.span.line if each.span else 0}" for each in found] == row.expected, shown
    assert mark(row, found) == row.mark, shown
    result = compiled(folder, row.file, row.text("+"))
    assert result.diagnostics == (), render(result.diagnostics)
    assert result.launches


@pytest.mark.slow
def test_pasted_advice_never_changes_the_meaning_of_the_job(folder: Path) -> None:
    """Pasted advice gives the right job or another error: the value or its brackets may need a change."""
    right = 0
    for row in ROWS:
        found = compiled(folder, row.file, row.text("-")).diagnostics
        if len(found) > 1 or sum(line[0] == "-" for line in row.edit) > 1:
            continue
        wanted = meaning(compiled(folder, row.file, row.text("+")))
        meanings = [meaning(compiled(folder, row.file, text)) for text in pasted(row.text("-"), found[0])]
        assert all(each in ([], wanted) for each in meanings), row.name
        right += wanted in meanings
    assert right >= 150


def test_most_advice_is_very_good_and_hardly_any_is_poor() -> None:
    counts = Counter(row.mark for row in ROWS)
    assert counts.keys() <= {*MARKS}
    assert len(ROWS) >= 200
    assert counts["very good"] >= 0.74 * len(ROWS)
    assert counts["poor"] + counts["wrong"] + counts["silent"] <= 0.05 * len(ROWS)
