"""Every example for containers plans as new, runs to success, and plans as unchanged afterwards."""

import re
import shutil

import pytest
from ruamel.yaml import YAML

from tests.engines.images import PUBLIC, stand_in
from tests.scenarios.test_examples import EXAMPLES, assert_runs, in_containers, job_of, why_not

FILES = [
    file
    for file in sorted(EXAMPLES.rglob("*.launcher.*"))
    if in_containers(file) and file.parent.name != "pipeline"  # see test_pipeline.py
]


def runs() -> list[tuple[str, str]]:
    """Example and target, for every target that runs it in containers ("": as it stands)."""
    found = []
    for file in FILES:
        read = YAML(typ="safe", pure=True).load(file)
        targets = [name for name, target in read.pop("targets", {}).items() if "local_docker" in str(target)]
        found += [(str(file.relative_to(EXAMPLES)), target) for target in targets]
        if "local_docker" in str(read):
            found.append((str(file.relative_to(EXAMPLES)), ""))
    return found


@pytest.mark.parametrize(("name", "target"), runs())
def test_an_example_succeeds_and_plans_as_unchanged_afterwards(scenario, name, target):
    """The example is copied beside a launcher.toml that names this test's own project."""
    if reason := why_not(job_of(EXAMPLES / name)):
        pytest.skip(reason)
    shutil.copytree((EXAMPLES / name).parent, scenario.folder / "x")
    file = scenario.folder / "x" / name.rpartition("/")[2]
    for image in set(re.findall(r"image\W+([\w./-]+:[\w.-]+)", file.read_text())):
        if image in PUBLIC:
            stand_in(image)
    assert_runs(scenario, file, *(["--target", target] if target else []))


def test_the_anywhere_example_runs_unchanged_on_this_machine(scenario):
    shutil.copytree(EXAMPLES / "anywhere", scenario.folder / "x")
    scenario.run_to_end(scenario.folder / "x")
    assert scenario.logs("anywhere/reader", "--no-prefix") == "replica 0 was here\n"
    assert scenario.apps() == []


def test_clients_of_the_redis_example_count_over_the_network(scenario):
    shutil.copytree(EXAMPLES / "redis", scenario.folder / "x")
    stand_in("redis:7")
    scenario.run_to_end(scenario.folder / "x", "--var", "clients=2")
    assert "2 clients made 3" in scenario.logs("redis/client", "--no-prefix")
