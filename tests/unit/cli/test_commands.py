"""list, status, describe, logs, wait, cancel, run and what they print."""

import json
import os
import re

import pytest

from tests.unit.schedulers.plugins import scheduler_plugins

FAILS = "echo trying; echo wrong >&2; exit 3"


@pytest.fixture
def failed(scenario):
    scenario.run_to_end(scenario.job(FAILS, replicas=2), code=5)
    return scenario


def test_an_empty_list_says_how_to_begin(scenario):
    done = scenario.launcher("list")
    assert done.out == ""
    assert "launcher apply" in done.err
    assert json.loads(scenario.launcher("list", "--json").out) == []
    assert not scenario.home.exists()


def test_list_shows_the_newest_apps_first_with_state_and_reason(failed):
    failed.run_to_end(failed.job("true", name="good"))
    head, first, second = failed.launcher("list").out.splitlines()
    assert head.split() == ["NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY"]
    assert first.split()[:3] == ["good", "1", "SUCCEEDED"]
    assert second.split()[:3] == ["job", "1", "FAILED"]
    assert re.search(r"main/[01] exited with 3: wrong$", second)


def test_list_can_be_limited_and_filtered_by_scheduler(failed):
    failed.run_to_end(failed.job("true", name="good"))
    assert len(json.loads(failed.launcher("list", "-n", "1", "--json").out)) == 1
    assert len(json.loads(failed.launcher("list", "--all", "-s", "local_cwd", "--json").out)) == 2
    assert json.loads(failed.launcher("list", "-s", "local_dir", "--json").out) == []
    assert "`local_cwd`" in failed.launcher("list", "-s", "local_cvd", code=64).err


def test_status_shows_every_replica_with_its_exit_code(failed):
    text = failed.launcher("status", "job").out
    assert text.splitlines()[0] == "job  FAILED"
    assert "job in project default, attempt 1" in text
    assert len(re.findall(r"^main/[01]", text, re.MULTILINE)) == 2
    [app] = failed.apps()
    document = failed.status(app)
    assert (document["state"], document["attempt"], document["exit_code"]) == ("FAILED", 1, 3)
    assert {(r["role"], r["replica"]) for r in document["replicas"]} == {("main", 0), ("main", 1)}


def test_status_without_an_app_shows_the_running_apps(scenario):
    assert "no apps are running" in scenario.launcher("status").err
    _, gate = scenario.running()
    assert "RUNNING" in scenario.launcher("status").out
    [item] = json.loads(scenario.launcher("status", "--json").out)
    assert (item["job"], item["state"]) == ("job", "RUNNING")
    gate.open()
    scenario.wait("job")
    assert json.loads(scenario.launcher("status", "--json").out) == []


def test_describe_shows_origin_and_document_without_secrets(scenario):
    scenario.run_to_end(scenario.job("true", role="env: {API_TOKEN: canary, LR: 0.10}"))
    text = scenario.launcher("describe", "job").out
    assert 'roles.main.env.LR = "0.10"' in text
    assert "canary" not in text
    assert "job.launcher.yaml" in text
    document = json.loads(scenario.launcher("describe", "job", "--json").out)
    assert document["document"]["roles"][0]["entrypoint"] == "sh"
    assert document["digest"].startswith("lr1:")


def test_logs_of_an_unknown_role_or_replica_name_the_known_ones(failed):
    assert "`main`" in failed.launcher("logs", "job/mian", code=1).err
    assert "it has 2" in failed.launcher("logs", "job/main/7", code=1).err


def test_followed_logs_of_several_replicas_with_times_end_with_the_app(scenario):
    gate = scenario.gate()
    script = f"[ $<replica_id> = 1 ] || {{ {gate.script}; }}; echo done $<replica_id>"
    scenario.apply(scenario.job(script, replicas=2))
    gate.entered()
    follower = scenario.start("logs", "job", "--follow", "--timestamps")
    gate.open()
    out, err = follower.communicate()
    assert (follower.returncode, err) == (0, "")
    assert sorted(line.split()[-1] for line in out.splitlines()) == ["0", "1"]


def test_run_options_are_checked_with_the_nearest_name(scenario):
    file = scenario.job("true")
    assert "grace_s" in scenario.launcher("run", file, "--cfg", "grase_s=3", code=64).err
    scenario.launcher("run", file, "--cfg", "grace_s=3", "-s", "local_cwd")
    assert "`local_cwd`" in scenario.launcher("run", file, "-s", "local_cdw", code=64).err


def test_schedulers_and_their_options_are_listed(scenario):
    names = [item["name"] for item in json.loads(scenario.launcher("schedulers", "--json").out)]
    assert names[:2] == ["local_cwd", "local_dir"]
    assert scenario.launcher("schedulers").out.splitlines()[1].split()[:2] == ["local_cwd", "default"]
    options = json.loads(scenario.launcher("runopts", "local_cwd", "--json").out)["local_cwd"]
    assert options["grace_s"]["type"] == "float"
    assert "grace_s (float" in scenario.launcher("runopts").out
    assert "`local_cwd`" in scenario.launcher("runopts", "local_cvd", code=64).err


def test_a_broken_scheduler_is_named_and_hides_no_other(scenario, tmp_path):
    scheduler_plugins(tmp_path, broken="no_such_module:create")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    printed = "the scheduler `broken` cannot be loaded from no_such_module:create: ModuleNotFoundError"
    for argv in (["run", "-s", "broken", "utils.echo"], ["runopts", "broken"], ["status", "broken://a/b"]):
        assert printed in scenario.launcher(*argv, code=1, env=env).err
    every = scenario.launcher("runopts", env=env)
    assert printed in every.err
    assert "# local_dir" in every.out
    assert printed in scenario.launcher("schedulers", env=env).out
    assert printed in scenario.launcher("configure", "--print", env=env).out
