"""`launcher compile`: the compiled job, and the origin of each of its values."""

import json

TEXT = """\
version: 1
name: train
vars:
  epochs: {type: int, default: 3}
  home: {type: str, from_env: DATA_HOME, default: /d}
  lr: {type: float, default: 1}
defaults: {role: {image: base}}
roles:
  main:
    entrypoint: run
    args: [$<var.epochs>, $<var.lr>, $<app_id>]
    env: {HOME_OF_DATA: $<var.home>, API_KEY: {secret: "env:API_KEY"}, DB_PASSWORD: abc}
    resource: cpu.small
    mounts: ["type=volume,src=cache,dst=/cache"]
timeout: 2h
targets:
  dev: {timeout: 10s, vars: {epochs: {default: 1}}}
"""


def origins(scenario, *argv):
    found = json.loads(scenario.launcher("compile", *argv, "--json").out)
    [job] = found["jobs"]
    return job["origins"]


def written(scenario):
    file = scenario.folder / "train.launcher.yaml"
    file.write_text(TEXT)
    (scenario.folder / "launcher.toml").write_text("[schedulers.local_cwd]\ngrace_s = 3\n")
    (scenario.folder / "vars.yaml").write_text("lr: 0.10\n")
    return file.name


def test_each_value_says_where_it_is_from(scenario, monkeypatch):
    file = written(scenario)
    monkeypatch.setenv("DATA_HOME", "/big")
    found = origins(scenario, file, "-t", "dev", "--var-file", "vars.yaml")
    at = {"file": file, "layer": "file"}
    assert found["name"] == {**at, "line": 2}
    assert found["roles.main.image"] == {**at, "line": 7}
    assert found["roles.main.entrypoint"] == {**at, "line": 10}
    assert found["timeout"] == {"layer": "target", "file": file, "line": 17, "through": ["target `dev`"]}
    assert found["roles.main.args[0]"]["through"] == ["`$<var.epochs>` is 1, from the target's default"]
    assert found["roles.main.args[1]"]["through"] == ["`$<var.lr>` is 0.1, from vars.yaml:1"]
    assert found["roles.main.args[2]"] == {**at, "line": 11}
    assert found["roles.main.env.HOME_OF_DATA"]["through"] == [
        '`$<var.home>` is "/big", from the environment\'s DATA_HOME'
    ]
    assert found["roles.main.resource.cpu"] == {**at, "line": 13}
    assert found["roles.main.mounts[0].dst"] == {**at, "line": 14}
    assert found["cfg.grace_s"] == {"layer": "project", "file": "launcher.toml", "line": 2}
    assert found["enabled"] == found["scheduler"] == found["project"] == {"layer": "default"}


def test_the_text_reads_like_a_job_file(scenario):
    text = scenario.launcher("compile", written(scenario), "--var", "epochs=7").out
    head, *rest = text.splitlines()
    assert head.startswith("# default/train  lr1:sha256:")
    pairs = dict(line.strip().split("   # ", 1) for line in rest if "   # " in line)
    values = {text.strip(): origin for text, origin in pairs.items()}
    assert values["- '7'"] == "train.launcher.yaml:11; `$<var.epochs>` is 7, from --var epochs"
    assert values["timeout: 7200"] == "train.launcher.yaml:15"
    assert values["grace_s: 3"] == "launcher.toml:2"
    assert values["num_replicas: 1"] == "default"
    assert "secret: 'env:API_KEY'" in values


def test_a_value_that_looks_like_a_secret_is_not_shown(scenario):
    done = scenario.launcher("compile", written(scenario))
    assert "abc" not in done.out
    assert "abc" not in scenario.launcher("compile", "train.launcher.yaml", "--json").out


def test_compile_shows_the_same_digest_as_the_plan(scenario):
    file = written(scenario)
    [job] = json.loads(scenario.launcher("compile", file, "--json").out)["jobs"]
    assert job["digest"] == scenario.plan_document(file)["jobs"][0]["launch"]["digest"]


def test_compile_refuses_a_variable_without_a_value(scenario):
    file = scenario.job("echo $<var.word>", top="vars: {word: {type: str}}")
    assert "unset-variable" in scenario.launcher("compile", file, code=6).err
    assert scenario.launcher("compile", file, "--var", "word=hi").out


def test_a_target_is_chosen_by_name_and_a_misspelt_name_gets_the_nearest(scenario):
    file = written(scenario)
    assert "did you mean `dev`?" in scenario.launcher("plan", file, "--target", "dve", code=6).err
    document = scenario.plan_document(file, "--target", "dev")
    assert document["jobs"][0]["key"]["target"] == "dev"
    scenario.launcher("plan", file, "--out", "plan.json")
    assert "--target has no effect on a saved plan" in (
        scenario.launcher("apply", "plan.json", "--target", "dev", code=64).err
    )


def test_compile_shows_every_job_of_a_matrix(scenario):
    file = scenario.job("echo $<matrix.n>", top="matrix: {n: [1, 2]}")
    found = json.loads(scenario.launcher("compile", file, "--json").out)
    assert [job["key"]["job"] for job in found["jobs"]] == ["job-1", "job-2"]


def test_run_takes_one_job_of_a_matrix_by_its_name(scenario):
    file = scenario.job("echo this is $<matrix.n>", top="matrix: {n: [1, 2]}")
    assert scenario.launcher("run", file, "--job", "job-2").out.splitlines()[-1] == "this is 2"
    refused = scenario.launcher("run", file, code=64).err
    assert "has 2 jobs, but run takes one" in refused
    assert "--job: job-1, job-2" in refused
    assert "did you mean `job-2`?" in scenario.launcher("run", file, "--job", "job-m2", code=64).err
