"""Jobs that share a machine take turns: in order, never more at once than fit, and also after SIGKILL.

What runs at once is seen from the processes: each takes one lock for each place that there is, and the kernel
releases it with the process.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from launcher.schedulers import pids
from launcher.turns.machine import gpu_table, machine, slots_table
from launcher.turns.table import tickets
from tests import processes
from tests.lanes import sampled, seeds
from tests.waiting import until

PLACES = 2
ROUNDS = int(os.environ.get("LAUNCHER_TURN_ROUNDS", "3"))
LIMIT_S = 60.0

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


class Line:
    """Jobs that ask for half of the machine's cores each, and note what goes wrong in files."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.folder = scenario.folder
        self.share = f"resource: {{cpu: {machine(with_gpus=False).cpu / PLACES:g}}}"

    def script(self, more="true"):
        """Return shell text that notes a third job that runs at once, and a job that runs before its turn."""
        at_once = f"exec 8>>{self.folder}/place-0 9>>{self.folder}/place-1; flock -n 8 || flock -n 9"
        return (
            f"{at_once} || echo $LAUNCHER_JOB_ID >>{self.folder}/over; "
            f"cd {self.table}; own=$(echo *-$<app_id>.*); "
            "for each in $(grep -D skip -hsw queued -- $(ls | grep -v bell) | cut -f 2); do "
            f'[ "$each" -gt "${{own%%-*}}" ] || echo "$each" >>{self.folder}/overtaken; done; '
            f"echo $<app_id> >>{self.folder}/ran; {more}"
        )

    @property
    def table(self):
        return slots_table()

    def write(self, name, more="true", top=""):
        return self.scenario.job(self.script(more), name=name, role=self.share, top=top)

    def matrix(self, count, more="true"):
        """Return a file of `count` jobs."""
        return self.write("job", more, top=f"matrix: {{n: {list(range(count))}}}")

    def ran(self):
        path = self.folder / "ran"
        return sorted(path.read_text().split()) if path.exists() else []

    def noted(self):
        """Return the lines that the jobs noted about faults."""
        paths = [self.folder / name for name in ("over", "overtaken")]
        return {path.name: path.read_text() for path in paths if path.exists()}

    def queued(self):
        """Return the ids of the apps in line."""
        return [each.app for each in tickets(self.table) if each.state == "queued"]

    def check(self):
        """Check that every app has run once, and that nothing is left in the table."""
        assert self.noted() == {}
        listed = self.scenario.launcher("list", "--all", "--json", code=None).out
        assert self.ran() == self.scenario.apps(), listed
        assert self.scenario.supervisors() == {}
        assert [name for name in os.listdir(self.table) if name not in ("lock", "last")] == []


@pytest.fixture
def line(scenario):
    return Line(scenario)


def kill_in_line(scenario, app_id):
    """SIGKILL the supervisor of an app in line, unless its turn comes; returns whether it was killed."""
    pid = scenario.supervisors().get(app_id)
    found = pids.process(pid) if pid else None
    if pid is None or found is None or not pids.send(pid, found.start, signal.SIGSTOP):
        return False
    until(lambda: (state := pids.process(pid)) is None or state.state in "TtZ")
    record = scenario.home / "local" / "apps" / app_id / "events.jsonl"
    in_line = record.exists() and '"starting"' not in record.read_text()
    pids.send(pid, found.start, signal.SIGKILL if in_line else signal.SIGCONT)
    return in_line


@pytest.mark.parametrize("count", sampled([10, 60], 10))
def test_jobs_in_line_never_exceed_the_machine_and_run_in_order(scenario, line, count):
    scenario.run_to_end(line.matrix(count))
    assert len(line.ran()) == count
    line.check()


@pytest.fixture
def holders(scenario, line):
    """The gates of two running jobs, `one` and `two`, that have all there is."""
    gates = {name: scenario.gate(name) for name in ("one", "two")}
    scenario.apply(*[line.write(name, gate.script) for name, gate in gates.items()])
    for gate in gates.values():
        gate.entered()
    return gates


def test_a_killed_holder_frees_its_place(scenario, line, holders):
    scenario.apply(line.write("three"))
    [waiting] = line.queued()
    app_id, holder = next(each for each in scenario.supervisors().items() if each[0].startswith("one-"))
    # Its replica first: alone, it would hold its lock until the next command.
    os.kill(holder, signal.SIGSTOP)
    replicas = [pid for pid in processes.of_app(str(scenario.home), app_id) if pid != holder]
    processes.kill(replicas)
    assert processes.gone(replicas, timeout_s=LIMIT_S)
    processes.kill([holder])
    scenario.wait("three")
    assert waiting in line.ran()
    assert line.noted() == {}
    scenario.cancel("two")


@pytest.mark.slow
@pytest.mark.parametrize("count", [20])
def test_killed_supervisors_never_let_two_jobs_have_one_gpu(scenario, monkeypatch, count):
    """The replicas ignore TERM and start daemons. No command runs until the line is empty."""
    monkeypatch.setenv("LAUNCHER_GPUS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    over, chance = scenario.folder / "over", random.Random(count)
    stubborn = "trap '' TERM; (setsid sleep 1000 &); sleep 0.2; sleep 0.2"
    script = f"exec 9>>{scenario.folder}/one; flock -n 9 || echo $LAUNCHER_JOB_ID >>{over}; {stubborn}"
    top = f"matrix: {{n: {{range: [0, {count}]}}}}"
    scenario.apply(scenario.job(script, top=top, role="resource: {gpu: 1}"))
    killed, deadline = set(), time.monotonic() + 10 * LIMIT_S
    while "queued" in {each.state for each in tickets(gpu_table())}:
        seen = tickets(gpu_table())
        assert time.monotonic() < deadline, [(each.app, each.state, each.is_left) for each in seen]
        time.sleep(chance.uniform(0, 0.4))
        alive = scenario.supervisors()
        for each in seen:
            if each.state == "holds" and not each.is_left and each.app in alive and chance.random() < 0.5:
                processes.kill([alive[each.app]])
                killed.add(each.app)
    for n in range(count):  # with none behind it, what the last one has left is for a command to end
        scenario.launcher("wait", f"job-{n}", code=None)
    assert killed
    assert not over.exists()
    states = [scenario.attempts(f"job-{n}")[-1].state for n in range(count)]
    assert set(states) <= {"succeeded", "lost"}
    assert states.count("lost") <= len(killed)


CLEARING = """\
import os, sys
from launcher.cli.main import main
from launcher.schedulers.local import claim
done = []
def delete(path, real=claim._delete):
    real(path)
    done.append(path)
    if len(done) == {at}:
        os.kill(os.getpid(), 9)
claim._delete = delete
sys.exit(main(sys.argv[1:]))
"""
"""Python text: `launcher`, killed when it has deleted so many files of an app that it takes over."""


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_client_killed_while_it_clears_up_after_a_dead_holder_loses_no_attempt(scenario, line, holders, at):
    file = line.write("three")
    scenario.apply(file)
    [app_id] = line.queued()
    assert kill_in_line(scenario, app_id)
    killed = scenario.spawn([sys.executable, "-c", CLEARING.format(at=at), "apply", str(file), "--yes"])
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert scenario.actions(file) == {"three": "resume"}
    scenario.apply(file)
    assert line.queued() == [app_id]
    scenario.cancel("one")
    scenario.wait("three")
    assert [attempt.number for attempt in scenario.attempts("three")] == [1]
    scenario.cancel("two")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_applies_finish_the_work_after_random_kills_of_clients_and_of_apps_in_line(scenario, line, seed):
    """The next apply resumes apps that were killed before their start: each job runs once."""
    chance = random.Random(seed)
    file = line.matrix(16, "sleep 0.2")
    killed = 0
    for _ in range(4):
        client = scenario.start("apply", file, "--yes", "--wait")
        with suppress(subprocess.TimeoutExpired):
            client.wait(chance.uniform(0.5, 2.5))
        for _ in range(3):
            if waiting := line.queued():
                killed += kill_in_line(scenario, chance.choice(waiting))
        client.kill()
        client.communicate()
    scenario.run_to_end(file)
    assert len(line.ran()) == 16
    line.check()
    assert set(scenario.actions(file).values()) == {"keep"}
    assert all(app.split("-")[-2] == "1" for app in scenario.apps()), "a job has a second attempt"


def of_lines(home):
    """Return the processes that hold lines, and those that start supervisors for them."""
    found = [pid for pid in processes.of_home(str(home)) if "line_holder" in processes.describe(pid)]
    starters = [pid for pid in processes.of_home(str(home)) if "local.starter" in processes.describe(pid)]
    return found + [pid for pid in starters if processes.parent(pid) in found]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_the_processes_in_a_line_lose_no_job_and_repeat_none(scenario, line, seed):
    """Processes are killed while they get apps, hold them in line, or hand them on to supervisors."""
    chance = random.Random(seed)
    file = line.matrix(12, "sleep 0.05")
    for _ in range(4):
        client = scenario.start("apply", file, "--yes")
        with suppress(subprocess.TimeoutExpired):
            client.wait(chance.uniform(0.3, 2.0))
        deadline = time.monotonic() + chance.uniform(0, 1.0)
        while not (found := of_lines(scenario.home)) and time.monotonic() < deadline:
            time.sleep(0.01)
        processes.kill(chance.sample(found, min(len(found), chance.choice([1, 1, 2]))))
        client.communicate(timeout=240)
    scenario.run_to_end(file)
    assert len(line.ran()) == 12
    line.check()
    assert of_lines(scenario.home) == []
    assert set(scenario.actions(file).values()) == {"keep"}


def start_of(scenario, folder, home, file, *options, **env):
    environ = {**os.environ, "LAUNCHER_HOME": str(home), **env}
    return scenario.start("apply", file, "--yes", "--wait", *options, cwd=folder, env=environ)


def race(scenario, homes, file, count, **env):
    """`count` applies at once, each of its own project, from the homes in turn. All must succeed."""
    clients = []
    for number in range(count):
        folder = scenario.folder / f"p{number}"
        folder.mkdir()
        (folder / "launcher.toml").write_text(f'project = "p{number}"\n')
        (folder / file.name).write_text(file.read_text())
        clients.append(start_of(scenario, folder, homes[number % len(homes)], file.name, **env))
    for client in clients:
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0, out + err


@pytest.mark.slow
def test_racing_applies_of_two_homes_that_share_a_table_never_oversubscribe(
    scenario, line, tmp_path, monkeypatch
):
    monkeypatch.setenv("LAUNCHER_SLOTS", str(tmp_path / "slots"))
    homes = [scenario.home, tmp_path / "other"]
    race(scenario, homes, line.write("job", "sleep 0.1"), 20)
    assert "over" not in line.noted()  # numbers are drawn before an app enters the line
    assert len(line.ran()) == len(set(line.ran())) == 20
    assert [name for name in os.listdir(line.table) if name not in ("lock", "last")] == []
    for home in homes:
        assert processes.supervisors(str(home)) == {}


@pytest.mark.slow
def test_two_homes_with_tables_of_their_own_never_share_a_gpu(scenario, tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "4")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    note = scenario.folder / "shared"
    script = (
        'for each in $(echo $CUDA_VISIBLE_DEVICES | tr , " "); do '
        f"flock -n {scenario.folder}/gpu-$each -c 'sleep 0.1' & all=\"$all $!\"; done; "
        f"for each in $all; do wait $each || echo $LAUNCHER_JOB_ID >>{note}; done; "
        f"echo $CUDA_VISIBLE_DEVICES >>{scenario.folder}/dealt"
    )
    file = scenario.job(script, role="resource: {gpu: 2}")
    race(scenario, [scenario.home, tmp_path / "other"], file, 12)
    assert not note.exists()
    dealt = (scenario.folder / "dealt").read_text().split()
    assert len(dealt) == 12
    assert {gpu for each in dealt for gpu in re.split(",", each)} <= set("0123")
    assert all(len(set(each.split(","))) == 2 for each in dealt)
    assert [name for name in os.listdir(gpu_table()) if name not in ("lock", "last")] == []


EQUAL = {"shared cores": "cpu: 64", "GPUs": "gpu: 1"}


@pytest.mark.slow
@pytest.mark.parametrize("what", EQUAL)
def test_two_homes_with_equal_job_names_never_hold_one_share_twice(scenario, tmp_path, monkeypatch, what):
    """The apps of both homes have equal ids, attempt by attempt: tickets name their home."""
    monkeypatch.setenv("LAUNCHER_GPUS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if "shared" in what:
        monkeypatch.setenv("LAUNCHER_SLOTS", str(tmp_path / "slots"))
    over, ran = scenario.folder / "over", scenario.folder / "ran"
    alone = f"flock -n {scenario.folder}/one -c 'sleep 0.05' || echo $LAUNCHER_JOB_ID >>{over}"
    file = scenario.job(f"{alone}; echo >>{ran}", role=f"resource: {{{EQUAL[what]}}}")
    homes = [scenario.home, tmp_path / "other"]
    for _ in range(ROUNDS):
        clients = [start_of(scenario, scenario.folder, home, file, "--rerun", "job") for home in homes]
        for client in clients:
            out, err = client.communicate(timeout=240)
            assert client.returncode == 0, out + err
        assert not over.exists()
    assert len(ran.read_text()) == 2 * ROUNDS


@pytest.mark.slow
def test_a_withdrawn_job_in_line_never_runs_and_its_replacement_keeps_its_place(scenario, line, holders):
    scenario.apply(line.write("first"))
    scenario.apply(line.write("second"))
    before = line.queued()
    scenario.apply(line.write("first", "echo changed"))
    after = line.queued()
    assert [a.split("-")[0] for a in before] == [a.split("-")[0] for a in after] == ["first", "second"]
    assert after[0] != before[0]
    for gate in holders.values():
        gate.open()
    scenario.wait("first")
    scenario.wait("second")
    assert before[0] not in line.ran()
    assert line.noted() == {}
    assert scenario.logs("first", "--no-prefix") == "changed\n"
