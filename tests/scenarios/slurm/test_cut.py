"""The connection is cut during a submission: the next apply finishes the work, and no job stays queued."""

import os
import subprocess

import pytest

from launcher.specs import AppState
from tests import processes
from tests.lanes import sampled
from tests.slurm_scenario import SlurmScenario
from tests.waiting import until

REQUESTS = ("ask", "reserve", "create", "start")
"""What an apply sends to the login node, in this order: each is one run of python3 there."""

SHIM = """\
#!/bin/sh
# Run the program; in the call that the file `point` names, stop before or after it until the test goes on.
[ -z "$SLURM_JOB_ID" ] || exec /usr/bin/{name} "$@"
call={name}
echo >>~/{name}.calls
if [ {name} = python3 ]; then call=request.$(wc -l <~/python3.calls); fi
if [ {name} = scontrol ]; then call=$1; fi
stop() {{
    if [ "$1 $call" = "$(cat ~/point 2>/dev/null)" ] && mv ~/point ~/reached 2>/dev/null; then {gate}; fi
}}
stop before
said=$(/usr/bin/{name} "$@")
code=$?
stop after
[ -z "$said" ] || printf '%s\\n' "$said"
exit $code
"""
CALLS = {name: f"request.{number}" for number, name in enumerate(REQUESTS, 1)}
CALLS |= {"sbatch": "sbatch", "release": "release"}
CUTS = ("client", "client, and the agent goes on later", "connection", "everything")
CASES = [
    f"{when} {call}: {cut}"
    for number, call in enumerate(list(CALLS)[1:])
    for late, when in enumerate(("before", "after"))
    for cut in CUTS[(number + late + 1) % 2 :: 2]
]
KEPT = [("after create", cut) for cut in CUTS if cut != "connection"]
"""Submissions that the next apply goes on with. A client that lives takes back what it has no answer to."""


class Stop:
    """Stops an apply in the middle of a request: before or after a program runs on the login node."""

    def __init__(self, scenario: SlurmScenario, point: str) -> None:
        self.scenario = scenario
        self.home = scenario.cluster.home
        self.uid = self.home.stat().st_uid
        self._gate = scenario.gate("stop")
        programs = self.home / "bin"
        programs.mkdir()
        for name in ("python3", "sbatch", "scontrol"):
            (programs / name).write_text(SHIM.format(name=name, gate=self._gate.script))
            (programs / name).chmod(0o755)
        (self.home / ".bashrc").write_text("PATH=~/bin:$PATH\n")
        (self.home / "point").write_text(point + "\n")
        os.chown(self.home / "point", self.uid, self.uid)

    def reached(self) -> None:
        self._gate.entered()

    def go_on(self) -> None:
        self._gate.open()

    def cut(self, what: str, client: subprocess.Popen[str]) -> None:
        """SIGKILL the client with its ssh, the processes of the connection on the login node, or all."""
        if what != "connection":
            client.kill()
            processes.kill(processes.of_home(str(self.scenario.home)))
        if what == "connection":
            sessions = [pid for pid in processes.everything() if self._is_session(pid)]
            assert sessions
            processes.kill(sessions)
        if what == "everything":
            processes.kill(processes.of_user(self.uid))
        client.communicate()

    def _is_session(self, pid: int) -> bool:
        line = processes.describe(pid)
        return "sshd" in line and f" {self.scenario.cluster.user}" in line


@pytest.mark.parametrize(
    "case", sampled(CASES, "after sbatch: everything", "after release: connection", every=3)
)
def test_the_next_apply_finishes_a_submission_that_was_cut_off(there, case):
    point, _, cut = case.partition(": ")
    when, call = point.split()
    log = there.folder / "runs"
    file = there.job(f"echo run >>{log}")
    stop = Stop(there, f"{when} {CALLS[call]}")
    client = there.start("apply", file, "--yes")
    stop.reached()
    stop.cut(cut, client)
    late = cut.endswith("later")
    if cut != "everything" and not late:
        stop.go_on()
    there.run_to_end(file)
    if late:
        stop.go_on()
    until_done(there)
    assert log.read_text() == "run\n"
    [app] = there.apps()
    assert there.actions(file) == {"job": "keep"}
    assert there.state("job") is AppState.SUCCEEDED
    assert os.listdir(there.job_dir / "apps") == [app]
    is_taken_back = call in ("create", "sbatch") and (point, cut) not in KEPT
    submitted = len((stop.home / "sbatch.calls").read_text())
    assert submitted in ((1, 2) if is_taken_back else (1,))


def until_done(there: SlurmScenario) -> None:
    """Wait until the queue is empty, and no process of the user lives on the login node."""
    uid = there.cluster.home.stat().st_uid
    until(
        lambda: not there.queue() and not processes.of_user(uid),
        lambda: [there.queue(), *map(processes.describe, processes.of_user(uid))],
    )
