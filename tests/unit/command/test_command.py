"""`command.run`: output is returned, failures are complete, and no process outlives the call."""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.command import run
from launcher.errors import CommandError
from tests import processes


def test_a_command_gets_its_input_and_runs_in_the_folder_asked_for(tmp_path: Path):
    assert run(["printf", "a\\nb"]) == "a\nb"
    assert run(["cat"], input="hällo") == "hällo"
    assert run(["cat"]) == ""
    assert run(["sh", "-c", "echo none; exit 1"], ok=(0, 1)) == "none\n"
    folder = tmp_path / "folder"
    folder.mkdir()
    name = os.fsdecode(b"caf\xe9")
    (folder / name).touch()
    assert run(["sh", "-c", "pwd -P; ls"], cwd=str(folder)) == f"{os.path.realpath(folder)}\n{name}\n"


def test_variables_are_added_and_taken_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GONE", "1")
    shown = run(["env"], env={"ADDED": "2", "GONE": None}).splitlines()
    assert "ADDED=2" in shown
    assert not [line for line in shown if line.startswith("GONE=")]
    assert [line for line in shown if line.startswith("PATH=")], "the rest of the environment stays"


def test_a_failure_shows_argv_code_stdout_and_stderr():
    with pytest.raises(CommandError) as failed:
        run(["sh", "-c", "echo some output; echo 'a b' is wrong >&2; exit 3"])
    assert str(failed.value).splitlines() == [
        "sh -c 'echo some output; echo '\"'\"'a b'\"'\"' is wrong >&2; exit 3' exited with 3",
        "stderr:", "  a b is wrong", "stdout:", "  some output",
    ]  # fmt: skip


def test_a_long_output_is_cut_at_its_beginning_in_the_error():
    with pytest.raises(CommandError) as failed:
        run(["sh", "-c", "seq 100000 >&2; exit 1"])
    assert "  …" in str(failed.value)
    assert str(failed.value).endswith("  100000")
    assert len(str(failed.value)) < 7_000


def test_a_command_that_cannot_be_started_or_is_killed_is_an_error_with_the_reason(tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("echo hi\n")
    for argv, cwd, why in (
        (["sh", "-c", "kill -USR1 $$"], None, "was killed by SIGUSR1"),
        (["true"], str(tmp_path / "nowhere"), r"cannot run true in .*/nowhere: No such file"),
        ([str(script)], None, "Permission denied"),
    ):
        with pytest.raises(CommandError, match=why):
            run(argv, cwd=cwd)
    with pytest.raises(CommandError, match="no command `no-such-command-here`") as failed:
        run(["no-such-command-here", "--version"])
    assert failed.value.hint == "install `no-such-command-here`, or put its folder on PATH"


@pytest.mark.slow
def test_a_timeout_kills_the_command_with_its_children():
    with pytest.raises(CommandError, match=r"took longer than 2 s and was killed") as failed:
        run(["sh", "-c", "sleep 1000 & echo $!; wait"], timeout_s=2)
    (child,) = re.findall(r"^  (\d+)$", str(failed.value), re.MULTILINE)
    assert processes.gone([int(child)], timeout_s=60)


def test_ctrl_c_kills_the_command_with_its_children(tmp_path: Path):
    os.mkfifo(tmp_path / "pids")
    code = f"""
from launcher.command import run
run(["sh", "-c", "sleep 1000 & echo $$ $! > {tmp_path}/pids; wait"])
"""
    client = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    client.send_signal(signal.SIGINT)
    _, output = client.communicate(timeout=60)
    assert "KeyboardInterrupt" in output
    assert len(pids) == 2
    assert processes.gone(pids, timeout_s=60)


def test_a_handler_of_the_program_for_ctrl_c_stays_in_place():
    def mine(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        run(["true"])
        with pytest.raises(CommandError):
            run(["no-such-command-here"])
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_commands_run_from_any_thread():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: run(["echo", str(n)]), range(8))) == [f"{n}\n" for n in range(8)]
