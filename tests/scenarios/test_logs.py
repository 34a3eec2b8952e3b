"""Logs print the bytes as they were written, whole or the part that options choose."""

import re
import subprocess
import sys

from tests.scenario import until_line


def test_logs_print_the_bytes_as_the_replica_wrote_them(scenario):
    payload = bytes(range(256)) * 40 + b"no newline at the end"
    (scenario.folder / "payload").write_bytes(payload)
    scenario.run_to_end(scenario.job("cat payload"))
    command = [sys.executable, "-m", "launcher", "logs", "job", "--no-prefix"]
    got = subprocess.run(command, capture_output=True, check=True, cwd=scenario.folder)
    assert got.stdout.removesuffix(b"\n") == payload
    [app] = scenario.apps()
    assert (scenario.home / "local/apps" / app / "logs/main/0/combined.log").read_bytes() == payload


def test_logs_print_the_last_lines_and_the_lines_that_match_a_regex(scenario):
    scenario.run_to_end(scenario.job("i=1; while [ $i -le 100 ]; do echo line $i; i=$((i+1)); done"))
    assert scenario.logs("job", "--tail", "2", "--no-prefix") == "line 99\nline 100\n"
    assert scenario.logs("job", "--regex", "^line .0$", "--no-prefix").split() == [
        word for n in range(10, 100, 10) for word in ("line", str(n))
    ]
    assert scenario.logs("job", "--regex", "[13]$", "--tail", "1") == "line 93\n"
    assert scenario.logs("job", "--until", "@1") == ""
    assert scenario.logs("job", "--since", "@9999999999") == ""
    assert scenario.logs("job", "--since", "1h", "--tail", "1") == "line 100\n"
    stamped = scenario.logs("job", "--timestamps", "--tail", "3")
    assert re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d{4} line \d+\n){3}", stamped)
    assert scenario.launcher("logs", "job", "--regex", "(", code=64).err


def test_apply_with_logs_shows_lines_as_they_arrive_also_into_a_pipe(scenario):
    gate = scenario.gate()
    file = scenario.job(f"echo early; {gate.script}; echo late")
    client = scenario.start("apply", file, "--yes", "--wait", "--logs")
    until_line(client.stdout, "main/0 | early")
    gate.entered()
    gate.open()
    until_line(client.stdout, "main/0 | late")
    assert client.wait() == 0


def test_a_bounded_log_reports_the_dropped_bytes_and_the_job_succeeds(scenario):
    file = scenario.job("seq 500000; echo last >&2", top="cfg: {log_max_mb: 1}")
    scenario.run_to_end(file)
    [app] = scenario.apps()
    folder = scenario.home / "local/apps" / app / "logs/main/0"
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_000_000
    shown = scenario.launcher("logs", "job", "--no-prefix")
    assert shown.out.startswith("1\n2\n")
    assert shown.out.count("were dropped here: log_max_mb]\n") == 1
    assert {"500000", "last"} <= set(shown.out.splitlines()[-2:])
    assert "log output is dropped beyond log_max_mb" in shown.err
    assert "log output is dropped beyond log_max_mb" in scenario.launcher("status", "job").out
    followed = scenario.launcher("logs", "job", "--no-prefix", "--follow", "--stream", "stdout")
    assert followed.out.endswith("\n500000\n")
