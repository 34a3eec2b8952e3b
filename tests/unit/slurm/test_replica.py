"""The wrapper of one replica: its output, its command, its probe, its end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.slurm import END_S
from tests.lanes import sampled
from tests.unit.slurm.site import Site, role, states
from tests.waiting import until


def one(site: Site, script: str, **fields: Any) -> dict[str, Any]:
    """Run an app of one replica `main/0`; return its record."""
    site.app(role("main", script, **fields))
    (replica,) = site.run()["replicas"]
    return dict(replica)


# -- output ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_output_of_processes_that_a_replica_leaves_is_kept(site: Site) -> None:
    site.patch("site/replica", "DRAIN_S = 0.5", "DRAIN_S = 50")
    one(site, "(sleep 0.6; echo late) & echo early")
    assert site.log("main") == b"early\nlate\n"


@pytest.mark.slow
def test_processes_that_outlive_their_replica_are_killed(site: Site) -> None:
    found = one(site, "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & sleep 0.1")
    assert found["code"] == 0
    assert site.processes() == []


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_arguments_and_variables_arrive_unchanged(site: Site) -> None:
    odd = "a  b\t'\"\\\n*ü 漢 \udcff %s {x}"
    program = "import os, sys; os.write(1, os.fsencode(sys.argv[1]) + b'|' + os.environb[b'ODD'])"
    one(site, "", argv=[sys.executable, "-c", program, odd], env={"ODD": odd})
    raw = odd.encode("utf-8", "surrogateescape")
    assert site.log("main") == raw + b"|" + raw


@pytest.mark.slow
def test_a_replica_runs_in_the_workspace_with_its_own_path_in_front(site: Site) -> None:
    (site.dir / "workspace/bin").mkdir(parents=True)
    (site.dir / "workspace/bin/hello").write_text("pwd; echo $0; cat; ls -d $LAUNCHER_SCRATCH")
    (site.dir / "workspace/bin/hello").chmod(0o755)
    one(site, "", argv=["hello"], env={"PATH": "bin", "LAUNCHER_SCRATCH": "\x01dir\x01/scratch"})
    workspace = f"{site.dir}/workspace"
    assert site.log("main").decode().split() == [workspace, f"{workspace}/bin/hello", f"{site.dir}/scratch"]


HOST = socket.gethostname()

UNSTARTABLE = {
    "./none": (127, "no such executable: ./none", {}),
    "": (127, "the entrypoint is empty", {}),
    "/etc/passwd": (126, "not executable: /etc/passwd", {}),
    "/bin/echo a\0b": (126, "/bin/echo: embedded null byte", {}),
    "true": (127, "no such working directory: /proc/none", {"cwd": "/proc/none"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", sampled(UNSTARTABLE, "./none"))
def test_a_command_that_cannot_be_started_is_reported(site: Site, command: str) -> None:
    code, why, fields = UNSTARTABLE[command]
    site.app(role("main", "", argv=command.split(" "), retries=3), **fields)
    found = site.run()
    assert (found["message"], found["code"]) == (f"main/0 could not be started on {HOST}: {why}", code)
    assert found["restarts"] == 0


@pytest.mark.slow
def test_a_replica_has_every_signal_at_its_default(site: Site) -> None:
    one(site, "", argv=["sed", "-n", "/^Sig[BIC]/p", "/proc/self/status"])
    assert [int(line.split()[1], 16) for line in site.log("main").splitlines()] == [0, 0, 0]


@pytest.mark.slow
def test_an_error_file_that_is_no_regular_file_is_ignored(site: Site) -> None:
    assert one(site, 'mkfifo "$TORCHELASTIC_ERROR_FILE"; exit 4')["error_file"] == ""


@pytest.mark.slow
def test_memory_that_ran_out_is_reported_where_slurm_says_so(site: Site) -> None:
    srun = (site.bin / "srun").read_text()
    shown = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0."
    site.program("srun", srun.replace("sys.exit(", f"print({shown!r}, file=sys.stderr)\nsys.exit("))
    site.app(role("main", "kill -9 $$"))
    assert site.run()["message"] == "main/0 was killed: out of memory"


# -- stopping ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_suspended_replica_is_stopped(site: Site) -> None:
    site.app(role("main", "trap 'exit 7' TERM; echo up; kill -STOP $$; while :; do sleep 0.1; done"))
    process = site.started()
    site.cancel(process)
    process.wait(END_S)
    assert states(site.outcome()) == ["main/0 cancelled 7 cancelled"]


@pytest.mark.slow
def test_signals_of_the_user_reach_the_replica(site: Site) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.05; done"
    site.app(role("main", script))
    process = site.started()
    os.kill(site.pids("replica")[0], signal.SIGUSR1)
    assert process.wait(END_S) == 0
    assert b"saved\n" in site.log("main")


@pytest.mark.slow
def test_a_replica_that_slurm_has_told_to_end_gets_no_second_signal_from_its_conductor(site: Site) -> None:
    script = "trap 'echo term' TERM; trap 'exit 0' CONT; echo up; while :; do sleep 0.05; done"
    site.app(role("main", script))
    process = site.started()
    os.kill(site.pids("replica")[0], signal.SIGTERM)
    until(lambda: b"term\n" in site.log("main"))
    site.link("cancel", by="me")
    process.send_signal(signal.SIGUSR2)
    assert process.wait(END_S) != 0
    assert site.log("main").count(b"term\n") == 1


# -- probes ------------------------------------------------------------------------------------------------


def served(site: Site, probe: dict[str, Any], script: str, **fields: Any) -> dict[str, Any]:
    """Return the outcome of a client that waits for a server with this probe."""
    site.app(
        role("server", script, **fields),
        role("client", "true"),
        order={
            "server": {"service": True, "ready": {"every": 0.05, **probe}},
            "client": {"depends_on": {"server": "ready"}},
        },
    )
    return site.run()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


LISTEN = """
import socket, sys, time
sock = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    peer, _ = sock.accept()
    data = peer.recv(1000)
    peer.sendall(("HTTP/1.0 %s\\r\\n\\r\\n" % (sys.argv[2] if b"GET /up " in data else 404)).encode())
    peer.close()
"""


def test_a_port_is_probed(site: Site) -> None:
    port = free_port()
    argv = [sys.executable, "-c", LISTEN, str(port), "200"]
    assert served(site, {"port": port}, "", argv=argv)["state"] == "succeeded"


@pytest.mark.slow
def test_a_port_of_another_process_is_refused(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        found = served(site, {"port": port}, "exec sleep 1000")
    why = f"port {port} is in use by another process, so its probe would find that one"
    assert found["message"] == f"server/0 could not be started on {HOST}: {why}"


# -- a busy one --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_step_whose_srun_hangs_is_ended(site: Site) -> None:
    srun = (site.bin / "srun").read_text()
    site.program("srun", srun.replace("sys.exit(", "import time; time.sleep(1000)\nsys.exit("))
    site.app(role("main", "exit 3"))
    assert site.run()["code"] == 3
    assert site.processes() == []


def test_the_wrapper_needs_no_site_packages(site: Site) -> None:
    """The Python of a node may be older than any library: no module beyond the standard library is loaded."""
    code = (
        "import sys, runpy; runpy.run_path(sys.argv[1]); "
        "print([each for each in sys.modules.values() if 'site-packages' in str(vars(each).get('__file__'))])"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(site.zip)]
    assert subprocess.check_output(argv, text=True) == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.6", "3.7", "3.9"])
def test_the_programs_run_on_the_python_of_a_cluster(site: Site, version: str) -> None:
    """The programs run in the plain locale, without an encoding for text: names are bytes."""
    found = shutil.which(f"python{version}")
    if found is None or subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL):
        pytest.skip(f"there is no Python {version}")
    site.python = found
    site.program("python3", f'#!/bin/sh\nexec "{found}" "$@"\n')
    cwd = site.shared / "schön"
    server = role("server", "touch läuft; echo $GRÜSSE; exec sleep 1000", env={"GRÜSSE": "ü"})
    client = role("client", "test $LAUNCHER_RESTART = 1; exit $?", retries=1, policy="APPLICATION")
    server = {"service": True, "ready": {"file": "läuft"}}
    order = {"server": server, "client": {"depends_on": {"server": "ready"}}}
    site.app(server, client, order=order, cwd=str(cwd))
    outcome = site.run(LC_ALL="C", LANG="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (outcome["state"], outcome["message"], outcome["restarts"]) == ("succeeded", "", 1), site.output()
    assert (cwd / "läuft").exists()


def looks_often(site: Site) -> None:
    """Have the conductor look at the records of replicas all the time."""
    site.patch("steps", "LOOK_AT_RECORDS_S = 30.0", "LOOK_AT_RECORDS_S = 0.2")


@pytest.mark.slow
def test_an_end_that_was_not_reported_is_found_in_its_record(site: Site) -> None:
    srun = (site.bin / "srun").read_text()
    srun = srun.replace("stdin=subprocess.PIPE,", "stdin=subprocess.PIPE, stdout=2,")
    site.program("srun", srun.replace("sys.exit(", "import time; time.sleep(1000)\nsys.exit("))
    looks_often(site)
    site.app(role("main", "exit 3"))
    assert site.run()["message"] == "main/0 exited with 3"
    assert site.processes() == []


@pytest.mark.slow
def test_an_app_has_failed_when_the_daemon_of_a_step_is_killed_although_srun_waits_for_ever(site):
    site.program("stepd", (site.bin / "srun").read_text())
    site.program("srun", f'#!/bin/sh\nexec 3<&0\n{site.bin}/stepd "$@" <&3 >&2 &\nexec sleep 1000\n')
    looks_often(site)
    site.app(role("main", "echo up; exec sleep 1000"))
    process = site.started()
    stepd = f"{site.bin}/stepd".encode()
    [pid] = [
        each for each in site.processes() if stepd in Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
    ]
    os.kill(pid, signal.SIGKILL)
    assert process.wait(END_S) == 143
    assert site.outcome()["message"] == "main/0 was lost: its step was killed"
    assert site.processes() == []


@pytest.mark.slow
def test_a_long_reason_is_cut_within_a_line(site: Site) -> None:
    folder = "ü" * 80
    site.app(role("main", "", argv=["none"], env={"PATH": ":".join([folder] * 40)}))
    assert site.run()["message"].startswith(
        f"main/0 could not be started on {HOST}: no such executable: none in PATH (ü"
    )
    lines = (site.dir / "events").read_bytes().splitlines()
    assert max(map(len, lines)) < 1024
