"""`launcher init`: the files that it writes work unchanged, and existing files are kept."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import launcher
from launcher.cli import init
from launcher.cli.schema import schema as published
from launcher.specs import canonical

KINDS = ("yaml", "toml")
EXTRAS = ["--editor", "--pre-commit", "--ci", "github"]
FROM_REPOSITORY = '{"url": "https://example.org/l.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
FILES_OF_EXTRAS = [
    ".launcher/job-v1.schema.json", ".launcher/project-v1.schema.json", ".vscode/settings.json",
    ".vscode/extensions.json", ".pre-commit-config.yaml", ".github/workflows/launcher.yml",
]  # fmt: skip


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


def test_the_next_step_can_be_pasted_for_a_folder_that_looks_like_an_option(scenario):
    lines = scenario.launcher("init", "--", "-x y").err.splitlines()
    command = next(line for line in lines if line.lstrip().startswith("launcher plan "))
    assert scenario.launcher(*shlex.split(command)[1:]).out.splitlines()[-3] == "Plan: 1 to create"


def test_the_same_job_in_toml_is_the_same_job(scenario):
    scenario.launcher("init", "yaml")
    scenario.launcher("init", "toml", "--toml")
    scenario.launcher("fmt", "--check")
    yaml, toml = (launcher.load_job(scenario.folder / kind / f"hello.launcher.{kind}") for kind in KINDS)
    assert canonical.document(yaml) == canonical.document(toml)


def test_the_project_is_named_after_the_folder_or_its_work_tree(scenario):
    scenario.launcher("init", "My Jobs_2/")
    written = (scenario.folder / "My Jobs_2" / "launcher.toml").read_text()
    assert written.splitlines()[1] == 'project = "my-jobs-2"'
    subprocess.run(["git", "init", "-q", "Repo"], cwd=scenario.folder, check=True)
    scenario.launcher("init", "Repo/jobs")
    written = (scenario.folder / "Repo" / "jobs" / "launcher.toml").read_text()
    assert written.splitlines()[1] == 'project = "repo"'


def test_a_launcher_toml_that_applies_already_is_kept(scenario):
    scenario.launcher("init")
    above = scenario.folder / "launcher.toml"
    above.write_text('project = "ours"\n')
    assert "left launcher.toml unchanged" in scenario.launcher("init", "sub").err
    assert not (scenario.folder / "sub" / "launcher.toml").exists()
    assert above.read_text() == 'project = "ours"\n'


def test_init_writes_no_file_where_it_would_overwrite_one(scenario):
    mine = scenario.write("hello.launcher.yaml", "mine\n")
    assert "hello.launcher.yaml already exists" in scenario.launcher("init", code=1).err
    named = scenario.launcher("init", "--name", "hello", *EXTRAS, code=1)
    assert "hello.launcher.yaml already exists" in named.err
    assert [path.name for path in scenario.folder.iterdir()] == ["hello.launcher.yaml"]
    scenario.launcher("init", "--force")
    assert mine.read_text() != "mine\n"


def digest_of(scenario, job):
    return json.loads(scenario.launcher("compile", job, "--json").out)["jobs"][0]["digest"]


def test_a_workspace_leaves_out_files_that_no_job_reads(scenario):
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


def test_existing_jobs_keep_their_workspace_and_project(scenario):
    job = scenario.job("true", name="there", top="workspace: .")
    scenario.write(".venv/x", "x")
    digest = digest_of(scenario, job)
    scenario.run_to_end(job)
    notes = scenario.launcher("init", "--name", "second").err
    assert "did not write .launcherignore" in notes
    assert "did not write launcher.toml" in notes
    assert not any((scenario.folder / name).exists() for name in (".launcherignore", "launcher.toml"))
    assert digest_of(scenario, job) == digest
    assert scenario.actions(".") == {"there": "keep", "second": "create"}


@pytest.mark.slow
def test_in_a_repository_with_jobs_init_writes_only_the_extras_and_only_once(scenario):
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


@pytest.mark.slow
def test_existing_files_are_kept_and_the_additions_to_them_are_shown(scenario):
    scenario.job("true")
    texts = {
        ".vscode/settings.json": '{"yaml.schemas": 3}\n',
        ".vscode/extensions.json": '{"recommendations": ["a.b"]}\n',
        ".pre-commit-config.yaml": "repos: [{repo: meta, hooks: [{id: identity}]}]\n",
        ".github/workflows/launcher.yml": "name: mine\n",
        ".launcher/job-v1.schema.json": "mine\n",
    }
    for name, text in texts.items():
        scenario.write(name, text)
    for force in ([], ["--force"]):
        shown = scenario.launcher("init", "--editor", "--pre-commit", *force).err
        assert "left .vscode/settings.json unchanged; add to it:\n  {\n" in shown
        assert '    "yaml.schemas": {' in shown
        assert "redhat.vscode-yaml" in shown
        assert "id: launcher-validate" in shown
        kept = [name for name in texts if not force or "schema" not in name]
        found = {name: (scenario.folder / name).read_text() for name in kept}
        assert found == {name: texts[name] for name in kept}
    shown = scenario.launcher("init", "--ci", "github").err
    assert "left .github/workflows/launcher.yml unchanged: it differs from what init writes; --force" in shown
    scenario.launcher("init", "--ci", "github", "--force")
    assert (scenario.folder / ".github/workflows/launcher.yml").read_text() != "name: mine\n"


@pytest.mark.slow
def test_files_with_the_additions_are_left_without_advice(scenario):
    scenario.job("true")
    scenario.launcher("init", *EXTRAS)
    for name in FILES_OF_EXTRAS[2:5]:
        file = scenario.folder / name
        file.write_text(f"# mine\n{file.read_text()}")
    done = scenario.launcher("init", *EXTRAS)
    assert done.out == ""
    assert "add to it" not in done.err


def test_an_older_schema_is_replaced(scenario):
    schema = scenario.write(".launcher/job-v1.schema.json", json.dumps({"$id": published("job")["$id"]}))
    scenario.job("true")
    assert "wrote .launcher/job-v1.schema.json\n" in scenario.launcher("init", "--editor").out
    assert json.loads(schema.read_text()) == published("job")


def test_a_name_that_no_job_can_have_is_refused_with_the_nearest(scenario):
    assert "such as `my-job`" in scenario.launcher("init", "--name", "My_Job", code=64).err
    assert list(scenario.folder.iterdir()) == []


@pytest.mark.parametrize("flags", [[], ["--toml"]], ids=["yaml", "toml"])
def test_the_editor_finds_the_published_schema_from_the_job_file_and_the_settings(scenario, flags):
    subprocess.run(["git", "init", "-q", "."], cwd=scenario.folder, check=True)
    scenario.launcher("init", "jobs", "--editor", *flags)
    [job] = (scenario.folder / "jobs").glob("*.launcher.*")
    named = {name: schema_of(job.parent / name) for name in (job.name, "launcher.toml")}
    root = Path(__file__).resolve().parents[3]
    for schema in named.values():
        assert schema.read_text() == (root / "schemas" / schema.name).read_text()
    settings = json.loads((scenario.folder / ".vscode" / "settings.json").read_text())
    [of_yaml] = settings["yaml.schemas"]
    assert (scenario.folder / of_yaml).resolve() == named[job.name]
    for name, schema in {
        "hello.launcher.toml": named[job.name],
        "launcher.toml": named["launcher.toml"],
    }.items():
        associations = settings["evenBetterToml.schema.associations"].items()
        paths = [path for pattern, path in associations if re.fullmatch(pattern, f"/home/me/jobs/{name}")]
        assert [(scenario.folder / path).resolve() for path in paths] == [schema]


def schema_of(file):
    """Return the schema that the first line of a file names."""
    where = file.read_text().splitlines()[0].replace("$schema=", "").split()[-1]
    return (file.parent / where).resolve()


def test_the_hooks_are_for_job_files_and_their_commands_run(scenario):
    scenario.launcher("init", "--pre-commit")
    config = YAML(typ="safe").load((scenario.folder / ".pre-commit-config.yaml").read_text())
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        program, *argv = hook["entry"].split()
        assert program == "launcher"
        scenario.launcher(*argv, "hello.launcher.yaml")


@pytest.mark.parametrize(("files", "wanted"), [
    ({"RECORD": "x"}, "launcher-jobs==1.2"),
    ({"direct_url.json": FROM_REPOSITORY}, "launcher-jobs @ git+https://example.org/l.git@abc"),
    ({"direct_url.json": '{"url": "file:///home/me/launcher", "dir_info": {}}', "RECORD": "x"}, ""),
    ({"SOURCES.txt": "x"}, ""),
], ids=["an index", "a repository", "a folder", "a build in a checkout"])  # fmt: skip
def test_the_workflow_installs_what_is_installed_here_when_that_can_be_known(monkeypatch, files, wanted):
    class Installed:
        version = "1.2"

        def read_text(self, name):
            return files.get(name)

    monkeypatch.setattr(init, "distribution", lambda name: Installed())
    assert init._requirement() == wanted


def test_a_place_that_cannot_be_written_is_an_error(scenario):
    scenario.write("file", "")
    assert "cannot write file/sub/hello.launcher.yaml" in scenario.launcher("init", "file/sub", code=1).err


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("name", ["train.launcher.yaml", "jobs/my train.launcher.toml"])
def test_the_path_of_a_job_file_is_refused_with_the_command_that_writes_it(scenario, name, exists):
    if exists:
        scenario.write(name, "mine\n")
    said = scenario.launcher("init", name, code=64).err
    assert f"{name} names a file, and init writes to a folder" in said
    [command] = re.findall(r"^hint: launcher (.*)", said, re.MULTILINE)
    scenario.launcher(*shlex.split(command), "--force")
    assert (scenario.folder / name.replace(" ", "-")).is_file()


def test_the_path_of_another_file_is_refused_with_its_folder(scenario):
    scenario.write("a b/file", "")
    assert "hint: launcher init 'a b'\n" in scenario.launcher("init", "a b/file", code=64).err
    assert (scenario.folder / "a b/file").read_text() == ""


def test_a_file_that_is_overwritten_keeps_its_mode(scenario):
    file = scenario.write("hello.launcher.yaml", "mine\n")
    file.chmod(0o640)
    scenario.launcher("init", "--force")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(scenario):
    for name in (".launcherignore", *FILES_OF_EXTRAS):
        (scenario.folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(scenario.folder / name)
    said = scenario.launcher("init", *EXTRAS, timeout_s=60).err
    assert "left .vscode/settings.json unchanged; add to it" in said
