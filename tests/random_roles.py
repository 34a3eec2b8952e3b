"""Random job files of several roles in two clones of a repository, and clients that race over them.

Each run of a replica writes the files and outputs that it has read to a ledger outside of LAUNCHER_HOME.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from launcher.turns.machine import machine
from tests import processes

STEP = Path(__file__).parent / "scenarios/components/ledger_step.py"
READY = """{command: [sh, -c, 'test -e "$LAUNCHER_SCRATCH/up"'], every: 0.1s}"""
CODES = {0, 3, 4, 5, 7, -signal.SIGKILL}
"""Exit codes of commands that race."""
ACTS = ["data", "flip", "document", "needs", "matrix", "code", "commit", "holder", "holder", "client"]
REFUSED = re.compile(
    "no job or app is named|no such job in the given|there is no app|the supervisor of .* died"
    "|input files are not what was planned"
)
"""Errors of commands that name a job too early or too late, whose supervisor was killed at the start, or
whose files were edited between plan and submission."""


def put(path, text):
    """Replace a file at once, as editors do: clients that read it meanwhile find the old or the new text."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.rename(path)


class World:
    """Two clones of a repository with jobs a, b, c, and the ledger of all that ran.

    Attributes:
        names: of all jobs; where b is a matrix, b-0 and b-1 in its place.
        killed: the apps whose holder was killed; asked: the jobs that a client ran again by --rerun.
    """

    def __init__(self, scenario, chance):
        self.scenario, self.chance = scenario, chance
        self.folder = scenario.folder
        self.killed, self.asked, self.clients = set(), set(), []
        self.clones = [self.folder / "one", self.folder / "two"]
        (self.folder / "locks").mkdir()
        self.git(self.folder, "init", "-q", "--bare", "-b", "main", "origin.git")
        self.git(self.folder, "clone", "-q", "origin.git", "one")
        one = self.clones[0]
        names = ["a", "b", "c"]
        self.matrix = chance.random() < 0.6
        self.names = ["a", *(["b-0", "b-1"] if self.matrix else ["b"]), "c"]
        for at, name in enumerate(names):
            (one / f"{name}.launcher.yaml").write_text(self._job(name, names[:at]))
        for name in self.names:
            self.edit(one / f"data.{name}")
        shutil.copy(STEP, one / "step.py")
        (one / "helper.py").write_text("CODE = 0\n")
        (one / ".gitignore").write_text("__pycache__\n")
        self.commit(one, None)
        self.git(self.folder, "clone", "-q", "origin.git", "two")

    def git(self, folder, *argv):
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "gc.auto=0"]
        subprocess.run(["git", *who, *argv], cwd=folder, check=True, capture_output=True)

    def commit(self, clone, other):
        """Commit all edits of a clone, and bring the other one to that commit."""
        self.git(clone, "add", "-A")
        self.git(clone, "commit", "-q", "--allow-empty", "-m", "edit")
        self.git(clone, "push", "-q", "-f", "origin", "HEAD:main")
        if other is not None:
            self.git(other, "fetch", "-q", "origin")
            self.git(other, "reset", "-q", "--hard", "origin/main")

    def _job(self, name, before):
        """Write a job of up to three roles: a service, workers that fail and restart, in any order."""
        chance, share = self.chance, self.chance.random() < 0.4
        of = "b-$<matrix.n>" if name == "b" and self.matrix else name
        groups = [of, *(["turn"] if share else [])]
        top = ["version: 1", f"name: {name}", f"inputs: [data.{of}]", f"needs: {self._some(before)}"]
        if of != name:
            top.append("matrix: {n: [0, 1]}")
            if chance.random() < 0.5:
                top.append("max_parallel: 1")
                groups.append("matrix")
        if chance.random() < 0.3:
            top.append("lifecycle: {on_lost: rerun}")
        roles, serves = [], chance.random() < 0.4
        kinds = (["serve"] if serves else []) + chance.choices(
            ["ok", "once", "fail"], [6, 3, 0.6], k=chance.randint(1, 2)
        )
        for at, does in enumerate(kinds):
            words = [self.folder, ",".join(groups), of, "v0", f"r{at}", "$<replica_id>", does]
            words += [str(round(chance.uniform(0, 0.6), 2))]
            roles += [
                f"  r{at}:",
                f"    entrypoint: {sys.executable}",
                f"    args: {json.dumps(['-S', '-B', 'step.py', *map(str, words)])}",
                f"    num_replicas: {1 if does == 'serve' else chance.randint(1, 2)}",
                *([f"    resource: {{cpu: {machine(with_gpus=False).cpu}}}"] if share and not at else []),
                *(["    service: true", f"    ready: {READY}"] if does == "serve" else []),
            ]
            if does == "once" or (does != "serve" and chance.random() < 0.3):
                roles.append(f"    max_retries: {chance.randint(1, 2)}")
                roles.append(f"    retry_policy: {chance.choice(['replica', 'role', 'application'])}")
            if at and chance.random() < 0.7:
                when = "ready" if kinds[0] == "serve" else chance.choice(["started", "succeeded"])
                roles.append(f"    depends_on: {{r0: {when}}}")
        return "\n".join([*top, "roles:", *roles, ""])

    def _some(self, names):
        """Return some of the names as a list of YAML."""
        return f"[{', '.join(self.chance.sample(names, self.chance.randint(0, len(names))))}]"

    # the race

    def edit(self, path):
        put(path, f"{self.chance.randrange(10**9)}\n")

    def act(self):
        """Edit a file of one clone, commit, or kill a client or a holder."""
        chance = self.chance
        clone = chance.choice(self.clones)
        match chance.choice(ACTS):
            case "data":
                self.edit(clone / f"data.{chance.choice(self.names)}")
            case "flip":
                path = clone / f"data.{chance.choice(self.names)}"
                was = path.read_text()
                self.edit(path)
                with suppress(subprocess.TimeoutExpired):
                    self.clients[-1].wait(chance.uniform(0, 0.5))
                put(path, was)
            case "document":
                path = clone / f"{chance.choice('abc')}.launcher.yaml"
                put(path, re.sub('"v[0-9]+"', f'"v{chance.randrange(10**6)}"', path.read_text()))
            case "needs":
                at = chance.randrange(1, 3)
                path = clone / f"{'abc'[at]}.launcher.yaml"
                put(path, re.sub("(?m)^needs: .*", f"needs: {self._some('abc'[:at])}", path.read_text()))
            case "matrix":
                path = clone / "b.launcher.yaml"
                values = f"{{n: [{chance.choice(['0', '0, 1'])}]}}"
                put(path, re.sub("(?m)^matrix: .*", f"matrix: {values}", path.read_text()))
            case "code":  # a note of the plan, and no reason to run again
                put(clone / "helper.py", f"CODE = {chance.randrange(10**6)}\n")
            case "commit":
                self.commit(clone, *[each for each in self.clones if each != clone])
            case "holder":
                held = self.scenario.supervisors()
                if held:
                    pid = chance.choice(sorted(held.values()))
                    self.killed |= {app for app in held if held[app] == pid}
                    processes.kill([pid])
            case "client":
                chance.choice(self.clients).kill()

    def client(self):
        job = self.chance.choice([*self.names, "b"])
        apply, force = ["apply", ".", "--yes"], ["--retry-failed", "--allow-destructive"]
        argv = self.chance.choice([
            apply, [*apply, *force[1:]], [*apply, "--wait", *force],
            [*apply, "--select", f"+{job}"], [*apply, "--rerun", job], ["plan", "."], ["status", job],
            ["cancel", job, "--yes", "--grace", "1s"], ["wait", job, "--timeout", "1s"], ["list"], ["queue"],
            ["gc", "--older-than", "0", "--outputs"],
        ])  # fmt: skip
        if "--rerun" in argv:
            self.asked |= {each for each in self.names if each.startswith(job)}
        self.clients.append(self.scenario.start(*argv, cwd=self.chance.choice(self.clones)))

    def race(self):
        chance = self.chance
        self.clients = []
        for _ in range(chance.randint(2, 4)):
            self.client()
        for _ in range(chance.randint(2, 5)):
            with suppress(subprocess.TimeoutExpired):
                chance.choice(self.clients).wait(chance.uniform(0, 0.6))
            self.act()
        for each in self.clients:
            try:
                out, err = each.communicate(timeout=chance.uniform(0.5, 3))
            except subprocess.TimeoutExpired:
                each.kill()
                out, err = each.communicate()
            report = f"{each.args} exited {each.returncode}\n{out}\n{err}"
            assert "Traceback" not in err, report
            assert each.returncode in CODES or REFUSED.search(err), report

    def settle(self):
        """Apply in the first clone until nothing is left to do but for jobs that failed."""
        argv = ["apply", ".", "--yes", "--wait", "--allow-destructive"]
        for more in (["--retry-failed"], *[[]] * 5):
            last = {
                job: self.last(job) for job in self.plan(self.clones[0])
            }  # the jobs that its files declare
            cancelled = [job for job in last if last[job] is not None and last[job].state == "cancelled"]
            words = [*argv, *more, *(word for job in cancelled for word in ("--rerun", job))]
            self.scenario.launcher(*words, cwd=self.clones[0], code=None)
            actions = self.plan(self.clones[0])
            if {each["action"] for each in actions.values()} <= {"keep", "hold"}:
                return
        raise AssertionError(f"it never comes to rest: {actions}")

    # what is on record, and what was seen

    def last(self, job):
        ran = [each for each in self.scenario.attempts(job) if each.state != "skipped"]
        return ran[-1] if ran else None

    def plan(self, clone):
        shown = self.scenario.launcher("plan", ".", "--format", "json", cwd=clone).out
        return {each["key"]["job"]: each for each in json.loads(shown)["jobs"]}

    def lines(self):
        """Return the ledger's lines by app, each with its place in the ledger."""
        path, found = self.folder / "ledger", defaultdict(list)
        for at, line in enumerate(path.read_text().splitlines() if path.exists() else []):
            each = {**json.loads(line), "at": at}
            found[each["app"]].append(each)
        return found
