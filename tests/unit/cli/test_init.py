"""`launcher init`: what it writes works as it stands, and nothing that is there is lost."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import launcher
from launcher.cli import init_files
from launcher.jobfile import job_schema
from launcher.specs import canonical

KINDS = ("yaml", "toml")
EXTRAS = ["--editor", "--pre-commit", "--ci"]
FILES_OF_EXTRAS = [
    ".launcher/job-v1.schema.json",
    ".vscode/settings.json",
    ".vscode/extensions.json",
    ".pre-commit-config.yaml",
    ".github/workflows/launcher.yml",
]


def test_the_first_job_file_is_valid_planned_run_and_kept(scenario):
    done = scenario.launcher("init")
    assert done.out == "wrote hello.launcher.yaml\nwrote launcher.toml\nwrote .launcherignore\n"
    assert "launcher plan hello.launcher.yaml" in done.err
    assert scenario.launcher("validate", "--strict").err == "valid: 1 job\n"
    scenario.launcher("fmt", "--check")
    assert scenario.actions("hello.launcher.yaml") == {"hello": "create"}
    scenario.run_to_end("hello.launcher.yaml")
    assert scenario.logs("hello/main/1").strip() == "hello world, this is replica 1 of 2"
    assert scenario.actions("hello.launcher.yaml") == {"hello": "keep"}


def test_the_same_job_in_toml_is_the_same_job(scenario):
    scenario.launcher("init", "yaml")
    scenario.launcher("init", "toml", "--toml")
    scenario.launcher("fmt", "--check")
    yaml, toml = (
        launcher.load_job(scenario.folder / folder / f"hello.launcher.{folder}") for folder in KINDS
    )
    assert canonical.document(yaml) == canonical.document(toml)


def test_the_project_is_named_after_the_folder_or_its_work_tree(scenario):
    scenario.launcher("init", "My Jobs_2/")
    assert (scenario.folder / "My Jobs_2" / "launcher.toml").read_text().splitlines()[
        1
    ] == 'project = "my-jobs-2"'
    subprocess.run(["git", "init", "-q", "Repo"], cwd=scenario.folder, check=True)
    scenario.launcher("init", "Repo/jobs")
    assert (scenario.folder / "Repo" / "jobs" / "launcher.toml").read_text().splitlines()[
        1
    ] == 'project = "repo"'


def test_a_launcher_toml_that_applies_already_is_kept(scenario):
    scenario.launcher("init")
    above = scenario.folder / "launcher.toml"
    above.write_text('project = "ours"\n')
    assert "left launcher.toml unchanged" in scenario.launcher("init", "sub").err
    assert not (scenario.folder / "sub" / "launcher.toml").exists()
    assert above.read_text() == 'project = "ours"\n'


def test_nothing_is_overwritten_and_then_nothing_written_at_all(scenario):
    mine = scenario.write("hello.launcher.yaml", "mine\n")
    assert "hello.launcher.yaml already exists" in scenario.launcher("init", code=1).err
    named = scenario.launcher("init", "--name", "hello", *EXTRAS, code=1)
    assert "hello.launcher.yaml already exists" in named.err
    assert [path.name for path in scenario.folder.iterdir()] == ["hello.launcher.yaml"]
    scenario.launcher("init", "--force")
    assert mine.read_text() != "mine\n"


def digest_of(scenario, job):
    return json.loads(scenario.launcher("compile", job, "--json").out)["jobs"][0]["digest"]


def test_a_workspace_does_without_what_no_job_reads(scenario):
    job = scenario.job("ls -A", name="list", top="workspace: .")
    job.unlink()
    scenario.launcher("init")
    job = scenario.job("ls -A", name="list", top="workspace: .")
    digest = digest_of(scenario, job)
    for name in (
        ".venv/lib/x.py",
        "sub/.venv/x",
        ".vscode/settings.json",
        ".github/x",
        ".launcher/s",
        "a/.cache/x",
    ):
        scenario.write(name, "x")
    assert digest_of(scenario, job) == digest
    scenario.write("train.py", "x")
    assert digest_of(scenario, job) != digest


def test_workspaces_of_jobs_that_are_there_stay_as_they_are(scenario):
    job = scenario.job("true", name="there", top="workspace: .")
    scenario.write(".venv/x", "x")
    digest = digest_of(scenario, job)
    report = scenario.launcher("init", "--name", "second").err
    assert "did not write .launcherignore" in report
    assert not (scenario.folder / ".launcherignore").exists()
    assert digest_of(scenario, job) == digest


def test_in_a_repository_in_use_extras_come_alone_and_twice_is_as_once(scenario):
    job = scenario.job("true", top="workspace: .")
    before = job.read_text()
    done = scenario.launcher("init", *EXTRAS)
    assert [line.removeprefix("wrote ") for line in done.out.splitlines()] == FILES_OF_EXTRAS
    assert job.read_text() == before
    assert not (scenario.folder / "launcher.toml").exists()  # a project would make other jobs of them
    assert "list unneeded ones in .launcherignore" in done.err
    again = scenario.launcher("init", *EXTRAS)
    assert again.out == ""
    assert [
        line.removeprefix("left ").removesuffix(" unchanged")
        for line in again.err.splitlines()[: len(FILES_OF_EXTRAS)]
    ] == FILES_OF_EXTRAS


def test_what_is_there_is_merged_with_its_comments(scenario):
    scenario.job("true")
    settings = scenario.write(".vscode/settings.json", '{\n  // mine\n  "editor.rulers": [110]\n}\n')
    extensions = scenario.write(".vscode/extensions.json", '{"recommendations": ["a.b"]}\n')
    hooks = scenario.write(
        ".pre-commit-config.yaml", "repos:\n- repo: meta  # mine\n  hooks: [{id: identity}]\n"
    )
    schema = scenario.write(".launcher/job-v1.schema.json", json.dumps({"$id": job_schema()["$id"]}))
    done = scenario.launcher("init", *EXTRAS)
    assert done.out.splitlines() == [
        *(f"added to {name}" for name in FILES_OF_EXTRAS[:-1]),
        f"wrote {FILES_OF_EXTRAS[-1]}",
    ]
    assert settings.read_text().startswith('{\n  // mine\n  "editor.rulers": [110],\n')
    assert json.loads(extensions.read_text())["recommendations"][0] == "a.b"
    assert hooks.read_text().startswith(
        "repos:\n- repo: meta  # mine\n  hooks: [{id: identity}]\n- repo: local\n"
    )
    assert json.loads(schema.read_text()) == job_schema()


def test_what_cannot_be_merged_is_kept_and_what_to_add_is_shown(scenario):
    scenario.job("true")
    texts = {
        ".vscode/settings.json": '{"yaml.schemas": 3}\n',
        ".pre-commit-config.yaml": "repos: [{repo: meta, hooks: [{id: identity}]}]\n",
        ".github/workflows/launcher.yml": "name: mine\n",
        ".launcher/job-v1.schema.json": "mine\n",
    }
    for name, text in texts.items():
        scenario.write(name, text)
    report = scenario.launcher("init", *EXTRAS).err
    assert {name: (scenario.folder / name).read_text() for name in texts} == texts
    assert "left .vscode/settings.json unchanged; add to it:" in report
    assert '"yaml.schemas": {' in report
    assert "id: launcher-validate" in report
    assert (
        "left .github/workflows/launcher.yml unchanged: it differs from what init writes; --force" in report
    )
    scenario.launcher("init", "--ci", "--force")
    assert (scenario.folder / ".github/workflows/launcher.yml").read_text() != "name: mine\n"


def test_a_name_that_no_job_can_have_is_refused_with_the_nearest(scenario):
    assert "such as `my-job`" in scenario.launcher("init", "--name", "My_Job", code=64).err
    assert list(scenario.folder.iterdir()) == []


@pytest.mark.parametrize("flags", [[], ["--toml"]], ids=["yaml", "toml"])
def test_the_editor_finds_the_published_schema_from_the_job_file_and_the_settings(scenario, flags):
    subprocess.run(["git", "init", "-q", "."], cwd=scenario.folder, check=True)
    scenario.launcher("init", "jobs", "--editor", *flags)
    [job] = (scenario.folder / "jobs").glob("*.launcher.*")
    where = job.read_text().splitlines()[0].replace("$schema=", "").split()[-1]
    schema = (job.parent / where).resolve()
    root = Path(__file__).resolve().parents[3]
    assert json.loads(schema.read_text()) == json.loads((root / "schemas" / "job-v1.schema.json").read_text())
    settings = json.loads((scenario.folder / ".vscode" / "settings.json").read_text())
    for path in (*settings["yaml.schemas"], *settings["evenBetterToml.schema.associations"].values()):
        assert (scenario.folder / path).resolve() == schema


def test_the_hooks_are_for_job_files_and_their_commands_run(scenario):
    scenario.launcher("init", "--pre-commit")
    config = YAML(typ="safe").load((scenario.folder / ".pre-commit-config.yaml").read_text())
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        program, *argv = hook["entry"].split()
        assert program == "launcher"
        scenario.launcher(*argv, "hello.launcher.yaml")


def test_the_workflow_installs_what_is_installed_here_when_that_can_be_known(monkeypatch):
    class Installed:
        def read_text(self, name):
            origin = {"url": "https://example.org/l.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
            return json.dumps(origin)

    monkeypatch.setattr(init_files, "distribution", lambda name: Installed())
    assert init_files.requirement() == "launcher-jobs @ git+https://example.org/l.git@abc"


def test_a_place_that_cannot_be_written_is_an_error(scenario):
    scenario.write("file", "")
    assert "cannot write file/sub/hello.launcher.yaml" in scenario.launcher("init", "file/sub", code=1).err


def test_a_file_that_is_added_to_keeps_its_mode(scenario):
    kept = {".vscode/settings.json": 0o600, ".pre-commit-config.yaml": 0o664}
    for name, mode in kept.items():
        scenario.write(name, "{}" if name.endswith("json") else "repos: []\n").chmod(mode)
    assert scenario.launcher("init", "--editor", "--pre-commit").out.count("added to") == 2
    for name, mode in kept.items():
        assert (scenario.folder / name).stat().st_mode & 0o777 == mode, name


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(scenario):
    for name in (".launcherignore", *FILES_OF_EXTRAS):
        (scenario.folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(scenario.folder / name)
    printed = scenario.launcher("init", *EXTRAS, timeout_s=60).err
    assert "left .vscode/settings.json unchanged; add to it" in printed
