"""Invariant 14: a stranger's checkout runs none of its code, and ends within bounds of time and memory."""

import os
import resource
import subprocess
import sys
import textwrap

import pytest

from tests.lanes import sampled

CPU_S = 30
MEMORY_BYTES = 1 << 30
HEAD = "version: 1\nname: {}\n"
ROLE = "roles: {main: {entrypoint: env, num_replicas: %s}}\n"

JOBS = {
    "component": "component: evil.py:f\n", "outside": "component: ../evil.py:f\n",
    "module": "component: evil.f\n", "arguments": "component: evil.f\nargs: [1]\n",
    "environment": "vars: {x: {type: str, from_env: CANARY_TOKEN}}\n"
    + ROLE % "1"
    + "metadata: {x: $<var.x>}\n",
    "replicas": ROLE % "1000000",
    "glob": ROLE % "1" + "lifecycle: {rerun_on: [{files: ['" + "**/" * 30 + "none']}]}\n",
    "root-glob": ROLE % "1" + "lifecycle: {rerun_on: [{files: ['/**']}]}\n",
    "loop-glob": ROLE % "1" + "lifecycle: {rerun_on: [{files: ['loop/**/x']}]}\n",
    "workspace": ROLE % "1" + "workspace: /\n",
    "patterns": ROLE % "1" + "workspace: src\n",
    "matrix": ROLE % "1" + "matrix: {a: {range: [0, 100000000]}, b: {range: [0, 100000000]}}\n",
    "text": "vars: {x: {type: str, default: '%s'}}\n" % ("x" * 500_000)
    + "roles: {{main: {{entrypoint: env, args: [{}]}}}}\n".format(", ".join(["a$<var.x>"] * 9000)),
    "commit": ROLE % "1" + "metadata: {sha: $<git.sha>}\n",
}  # fmt: skip


@pytest.fixture
def checkout(scenario):
    """A repository in which everything that can name a program names one that leaves a canary."""
    folder = scenario.folder / "repo"
    canary = scenario.folder / "canary"
    program = scenario.folder / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{canary}'\ncat\n")
    program.chmod(0o755)
    for name, text in JOBS.items():
        scenario.write(f"repo/jobs/{name}.launcher.yaml", HEAD.format(name) + textwrap.dedent(text))
    evil = f"open({str(canary)!r}, 'a').write('component')\nwhile True: pass\n"
    for path in ("repo/jobs/evil.py", "repo/evil.py", "evil.py", "repo/sitecustomize.py", "repo/jobs/f.py"):
        scenario.write(path, evil)
    receiver = f"[notify]\ncommand = ['{program}']\n"
    scenario.write("repo/launcher.toml", f"[components.'evil.f']\nx = 1\n{receiver}")
    scenario.write("repo/jobs/src/.launcherignore", ("*a" * 30 + "b\n") * 60)
    scenario.write("repo/jobs/src/" + "a" * 200, "")
    scenario.write("repo/.gitattributes", "* filter=evil diff=evil\n")
    (folder / "jobs" / "loop").mkdir()
    (folder / "jobs" / "loop" / "a").symlink_to(".")
    (folder / "jobs" / "loop" / "b").symlink_to(".")
    os.symlink("/etc/passwd", folder / "jobs" / "link.launcher.yaml")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "hostile")
    for key in ("core.fsmonitor", "core.hooksPath", "filter.evil.clean", "filter.evil.process", "core.pager"):
        git(folder, "config", key, str(program if key != "core.hooksPath" else folder / "hooks"))
    (folder / "hooks").mkdir()
    (folder / "hooks" / "post-index-change").symlink_to(program)
    os.mkfifo(folder / "jobs" / "pipe.launcher.yaml")
    os.mkfifo(folder / "jobs" / "src" / ".dockerignore")
    os.utime(folder / "jobs" / "evil.py", ns=(1, 1))
    canary.unlink(missing_ok=True)
    return folder


def git(folder, *args):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True)


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.mark.slow
@pytest.mark.parametrize("command", sampled(["validate", "plan"], "validate"))
def test_a_hostile_checkout_runs_nothing_and_ends_within_bounds(checkout, scenario, command):
    # -c: the interpreter itself puts the current directory on its path with -m.
    start = (
        "import sys; sys.path.remove(''); from launcher.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    got = subprocess.run(
        [sys.executable, "-c", start, command, "--no-components", "--no-env-vars"], cwd=checkout,
        env={**os.environ, "CANARY_TOKEN": "t0ps3cret"}, capture_output=True, text=True, timeout=300,
        check=False, preexec_fn=limits,
    )  # fmt: skip
    message = got.stdout + got.stderr
    assert got.returncode == 6, message
    assert "Traceback" not in message
    canary = scenario.folder / "canary"
    assert not canary.exists(), canary.read_text()
    assert "t0ps3cret" not in message
    assert "root:x:" not in message
    assert message.count("[component-refused]") == 4
    for expected in ("environment-refused", "named pipe", "leads out of", "leaves the repository", "10,000"):
        assert expected in message


def test_a_checkout_of_good_job_files_plans_without_components(scenario):
    scenario.job("true", top="workspace: .\nlifecycle: {rerun_on: [{files: ['**/*.csv']}]}")
    scenario.launcher("validate", "--no-components", "--no-env-vars", "--strict")
    assert "1 to create" in scenario.launcher("plan", "--no-components", "--no-env-vars").out


@pytest.mark.slow
def test_hostile_source_that_a_job_runs_is_never_executed_and_is_read_within_bounds(scenario):
    """After a success `plan` reads the files that the job names and imports."""
    canary = scenario.folder / "canary"
    scenario.write("train.py", "import deep, text, pipe, link, nul, many, pkg\n" * 1000)
    scenario.write("deep.py", "import many\n" + "a" + "()" * 400_000)
    scenario.write("text.py", 'import many\nf"' + "{a}" * 300_000 + '"')
    scenario.write("nul.py", "import many\0")
    scenario.write("pkg/__init__.py", f"open({str(canary)!r}, 'w')\n")
    scenario.write("many.py", "".join(f"from pkg import m{number}\n" for number in range(40_000)))
    os.mkfifo(scenario.folder / "pipe.py")
    os.symlink("/etc/passwd", scenario.folder / "link.py")
    file = scenario.job("true; : train.py")
    scenario.run_to_end(file)
    [attempt] = scenario.attempts()
    assert {"train.py", "deep.py", "many.py"} < set(attempt.seen)
    assert not {"link.py", "pipe.py"} & set(attempt.seen)
    scenario.write("deep.py", "")
    got = subprocess.run(
        [sys.executable, "-m", "launcher", "plan", str(file)], cwd=scenario.folder, capture_output=True,
        text=True, timeout=300, check=False, preexec_fn=limits,
    )  # fmt: skip
    assert (got.returncode, "Traceback" in got.stderr) == (0, False), got.stderr
    assert "differs from what ran: deep.py (" in got.stdout
    assert not canary.exists()
