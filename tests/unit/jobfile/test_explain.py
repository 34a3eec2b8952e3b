"""Every code is explained, and the explanation is true: its examples are run."""

import io
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from launcher.cli.console import Console
from launcher.cli.main import main
from launcher.jobfile.diagnostic import CODES, WARNINGS, Explanation, Section, explanations
from launcher.plan.step import REASONS

EXPLANATIONS = {code: explanations()[code] for code in CODES}


@pytest.mark.parametrize(("code", "explanation"), EXPLANATIONS.items(), ids=list(EXPLANATIONS))
def test_the_wrong_example_gives_exactly_the_code_and_the_right_example_is_clean(
    code: str,
    explanation: Explanation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "x")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "x@example.org")
    for example, codes in ((explanation["Wrong"], [code]), (explanation["Right"], [])):
        folder = tmp_path / ("wrong" if codes else "right")
        write(example, folder)
        monkeypatch.chdir(folder)
        exit_code = main([*shlex.split(example.commands[-1])[1:], "--format", "json"])
        document = json.loads(capsys.readouterr().out)
        found = document.get("diagnostics", [])
        assert [diagnostic["code"] for diagnostic in found] == codes, found
        is_warning = code in WARNINGS
        severity = "warning" if is_warning else "error"
        assert [each["severity"] for each in found] == [severity] * len(codes)
        assert exit_code == (6 if codes and not is_warning else 0)


def write(example: Section, folder: Path) -> None:
    """Write the files, among them a link and a file in Latin-1, and run all commands but the last."""
    folder.mkdir()
    for name, content in example.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if link := re.fullmatch(r"\(a link to (.+)\)\n", content):
            path.symlink_to(link[1])
        else:
            path.write_bytes(content.encode().replace(rb"\xe9", b"\xe9"))
    for line in example.commands[:-1]:
        subprocess.run(["sh", "-c", line], cwd=folder, check=True)


def test_every_code_has_an_explanation_and_every_explanation_a_code() -> None:
    assert explanations().keys() == {*CODES, *REASONS}


@pytest.mark.parametrize(("code", "explanation"), explanations().items(), ids=[*explanations()])
def test_an_explanation_is_sentences_and_examples_fit_a_terminal(code: str, explanation: Explanation) -> None:
    assert [*explanation] == ["Why", *(("Wrong", "Right") if code in CODES else ("Example", "What to do"))]
    why, example, other = explanation.values()
    shown = [str(example).splitlines(), str(other).splitlines()]
    if code in REASONS:
        assert other.commands
        shown = [[*shown[0], *other.commands]]
    for text in (why.text, *([other.text] if code in REASONS else [])):
        assert re.fullmatch(r"[A-Z`].*[.]", text, re.DOTALL)
    assert max(len(line) for lines in shown for line in lines) <= 96
    assert max(map(len, shown)) <= 24


def test_explain_prints_the_page_of_a_code_however_it_is_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for word in ("unknown-field", "error[unknown-field]", "[unknown-field]"):
        assert main(["explain", word]) == 0
        pages.append(capsys.readouterr().out)
    assert len(set(pages)) == 1
    lines = pages[0].splitlines()
    assert lines[0] == "error[unknown-field]: a key that this mapping does not have"
    assert "    num_replica: 2" in "\n".join(lines[lines.index("Wrong:") : lines.index("Right:")])
    assert "    num_replicas: 2" in "\n".join(lines[lines.index("Right:") :])
    assert main(["explain", "secret-literal"]) == 0
    assert capsys.readouterr().out.startswith("warning[secret-literal]: ")


def test_explain_without_a_code_lists_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed[: len(CODES)] == sorted(CODES)
    assert {"no_attempt", "already_succeeded"} <= set(listed)
    assert main(["explain", "--json"]) == 0
    assert [entry["code"] for entry in json.loads(capsys.readouterr().out)] == listed


def test_an_unknown_code_gets_the_nearest_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "unknown-feild"]) == 64
    assert "did you mean `unknown-field`?" in capsys.readouterr().err
    assert main(["explain", "zzz"]) == 64
    assert "`launcher explain` lists the codes" in capsys.readouterr().err


def test_explain_colours_its_output_only_for_a_terminal() -> None:
    from launcher.cli.main import dispatch
    from tests.unit.cli.test_console import Terminal

    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        dispatch(["explain", "encoding"], Console(stream, io.StringIO(), {}))
        assert ("\x1b[" in stream.getvalue()) is coloured
