"""Invariants: edits and environments that never change a digest, and commands that write nothing."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "example-digests.json"

PLAIN = """
version: 1
name: job
vars: {n: {type: int, default: 2}}
roles:
  one:
    entrypoint: sh
    args: [-c, "echo $HOME 3.10"]
    env: {A: "1", B: "x"}
    num_replicas: $<var.n>
    mounts: [{type: bind, src: ./b, dst: /b}, {type: bind, src: ./a, dst: /a}]
"""
SAME_IN_OTHER_WORDS = """
# comments, order of keys, quoting, flow and block style, defaults written out
name: "job"
roles:
  one:
    mounts:
      - {dst: /a, src: ./a, type: bind, read_only: false}
      - type=bind,src=./b,dst=/b
    num_replicas: 2
    env:
      B: x
      A: 1
    args: ['-c', 'echo $HOME 3.10']
    entrypoint: "sh"
    max_retries: 0
description: said differently
lifecycle: {on_failed: rerun}
version: 1
"""
SAME_IN_TOML = """
version = 1
name = "job"
[roles.one]
entrypoint = "sh"
args = ["-c", "echo $HOME 3.10"]
num_replicas = 2
env = { A = "1", B = "x" }
mounts = [{ type = "bind", src = "./a", dst = "/a" }, { type = "bind", src = "./b", dst = "/b" }]
"""


def digest(scenario, file, **popen):
    document = json.loads(scenario.launcher("plan", file, "--format", "json", **popen).out)
    [job] = document["jobs"]
    return job["launch"]["digest"]


def test_a_job_has_one_digest_however_its_file_is_written(scenario):
    files = [
        scenario.write("a/job.launcher.yaml", PLAIN),
        scenario.write("b/job.launcher.yaml", SAME_IN_OTHER_WORDS),
        scenario.write("c/job.launcher.toml", SAME_IN_TOML),
    ]
    assert len({digest(scenario, file) for file in files}) == 1


@pytest.mark.slow
def test_a_job_has_one_digest_in_every_checkout_and_environment(scenario, tmp_path, monkeypatch):
    file = scenario.write("a/job.launcher.yaml", PLAIN)
    elsewhere = shutil.copytree(file.parent, tmp_path / "another checkout") / file.name
    seen = {digest(scenario, file), digest(scenario, elsewhere), digest(scenario, file, cwd="/")}
    for name, value in (
        ("TZ", "Asia/Tokyo"), ("LC_ALL", "C"), ("HOME", "/"), ("USER", "x"), ("PYTHONHASHSEED", "7"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
        seen.add(digest(scenario, file))
    assert len(seen) == 1


def test_the_digests_of_the_examples_equal_the_published_digests(scenario):
    """A change here would re-run every job of every user: make a new normal form instead."""
    found = {}
    for file in sorted((ROOT / "examples").rglob("*.launcher.*")):
        jobs = json.loads(scenario.launcher("compile", "--json", file).out)["jobs"]  # asks no engine
        digests = {job["key"]["job"]: job["digest"] for job in jobs}
        # A matrix makes many; else the file says it all.
        found[str(file.relative_to(ROOT))] = digests if len(digests) > 1 else next(iter(digests.values()))
    assert found == json.loads(GOLDEN.read_text())


def test_validate_and_plan_write_nothing_into_the_checkout(scenario):
    file = scenario.job("true")
    before = {path: path.stat().st_mtime_ns for path in scenario.folder.rglob("*")}
    scenario.launcher("validate", file)
    scenario.plan(file)
    assert not scenario.home.exists()
    scenario.run_to_end(file)
    assert {path: path.stat().st_mtime_ns for path in scenario.folder.rglob("*")} == before
