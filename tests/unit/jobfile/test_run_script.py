"""`run`: a script in place of `entrypoint` and `args`."""

import subprocess
from pathlib import Path

import pytest

from launcher.cli.compile import origins
from launcher.cli.main import main
from launcher.jobfile.compile.files import compile_files, compile_text
from launcher.specs import Launch, digest, document

HEAD = "version: 1\nname: job\nroles:\n  main:\n"


def _launch(body: str) -> Launch:
    made = compile_text(HEAD + body, "/tmp/job.launcher.yaml")
    made.raise_for_errors()
    return made.launches[0]


def test_the_document_has_the_command_that_runs_the_script() -> None:
    written = _launch("    run: |\n      a\n      b $<app_id>\n")
    (role,) = document(written)["roles"]
    assert role == {"name": "main", "entrypoint": "sh", "args": ["-euc", "a\nb $<app_id>\n"]}
    same = _launch('    entrypoint: sh\n    args: [-euc, "a\\nb $<app_id>\\n"]\n')
    assert digest(document(written)) == digest(document(same))


@pytest.mark.parametrize(("shell", "script", "code"), [
    ("sh", "false; true", 1), ("sh", "echo $unset_here; true", 2), ("bash", "false | true", 1),
    ("bash", "true | true", 0),
])  # fmt: skip
def test_the_script_ends_at_its_first_failure(shell: str, script: str, code: int) -> None:
    role = _launch(f"    run: {script}\n    shell: {shell}\n").app.roles[0]
    ended = subprocess.run([role.entrypoint, *role.args], capture_output=True, check=False)
    assert ended.returncode in ((1, 127) if code == 2 else (code,)) or code == ended.returncode


def test_the_origin_of_its_command_is_the_line_of_the_script(tmp_path: Path) -> None:
    path = tmp_path / "job.launcher.yaml"
    path.write_text(HEAD + "    image: x:1\n    run: ls\n")
    made = compile_files([str(path)])
    (launch,) = made.launches
    found = origins(launch, made.traces[launch.key])
    assert {found[f"roles.main.{each}"]["line"] for each in ("entrypoint", "args[0]", "args[1]")} == {6}


def test_convert_writes_the_command_of_a_script_as_a_script(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("c.py").write_text(
        "from launcher.specs import AppDef, Role\n\n\n"
        "def job() -> AppDef:\n"
        '    """A job."""\n'
        '    return AppDef("job", [Role("main", "", entrypoint="bash",'
        ' args=["-euo", "pipefail", "-c", "ls\\npwd\\n"])])\n'
    )
    assert main(["convert", "c.py:job"]) == 0
    text = capsys.readouterr().out
    assert "shell: bash" in text
    assert "entrypoint" not in text
    assert compile_text(text, "/tmp/job.launcher.yaml").launches[0].app.roles[0].args[-1] == "ls\npwd\n"
