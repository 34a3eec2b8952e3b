"""Commands write files whole, even under SIGKILL, and read records that other clients write meanwhile."""

import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lanes import seeds
from tests.scenarios.test_kill import killed
from tests.unit.cli.test_metrics import read
from tests.unit.cli.test_use import JOB, ran, use  # noqa: F401  # `ran` is a fixture

REPORT = ["report", "--html", "page.html"]
METRICS = ["metrics", "--textfile", "m.prom"]
USE = ["use", "train", "--write", "--yes"]
NEW = {
    "page.html": lambda text: text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n"),
    "m.prom": lambda text: ("attempts_total", "default default local_cwd succeeded") in read(text),
    "train.launcher.yaml": lambda text: 'memory: "12GiB"' in text and text.endswith("paper says\n"),
}


def is_new(path: Path) -> bool:
    return NEW[path.name](path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("argv", [REPORT, METRICS, USE], ids=lambda argv: argv[0])
def test_a_killed_command_leaves_the_old_file_or_a_whole_new_file(scenario, ran, argv):  # noqa: F811
    file = ran(JOB, use(), use())
    target = file if argv is USE else scenario.write(argv[-1], "old\n")
    before = target.read_text()
    there = {path.name for path in scenario.folder.iterdir()}
    assert not killed(scenario, "count", "calls", argv=argv)
    last = int((scenario.folder / "calls").read_text().split()[1])
    (scenario.folder / "calls").unlink()
    target.write_text(before)
    for seed in seeds(2):
        rng = random.Random(seed)
        for share in (rng.uniform(0.5, 1), rng.uniform(0.97, 1)):  # the first half writes nothing
            killed(scenario, "call", str(int(share * last)), argv=argv)
            assert target.read_text() == before or is_new(target), (seed, share)
            target.write_text(before)
    for left in scenario.folder.iterdir():  # a minute later
        os.utime(left, (0, 0))
    scenario.launcher(*argv)
    assert is_new(target)
    assert {path.name for path in scenario.folder.iterdir()} == there


READS = [
    REPORT, METRICS, ["use"], ["use", "--since", "1h", "--json"], ["grep", "canary"], ["report", "--json"],
    ["gc", "--logs", "--older-than", "1s"], ["gc", "--older-than", "1s"],
]  # fmt: skip


@pytest.mark.slow
def test_eight_clients_read_the_records_that_others_write_and_remove(scenario):
    jobs = [scenario.job("echo canary; sleep 0.3", name=f"job-{n}") for n in range(4)]
    scenario.launcher("apply", jobs[0], "--yes", "--wait")  # its success is in all metrics

    def client(number):
        for turn in range(4):
            argv = READS[(2 * number + turn) % len(READS)]
            if number < len(jobs):
                argv = ["apply", jobs[number], "--yes", "--wait", "--rerun", f"job-{number}"]
            # a process of its own: those of the fork server take turns
            found = scenario.launcher(*argv, code=None, stdin=subprocess.DEVNULL)
            assert found.code in ((0, 1) if argv[0] == "grep" else (0,)), (argv, found)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client, range(8)))
    assert is_new(scenario.folder / "page.html")
    assert is_new(scenario.folder / "m.prom")
    assert [path.name for path in scenario.folder.iterdir() if path.suffix == ".new"] == []
