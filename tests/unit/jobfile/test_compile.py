"""Files to launches: one content, one launch; whose job it is; what a directory means."""

import os
from pathlib import Path

import pytest

from launcher.errors import JobFileError
from launcher.jobfile import Environment, compile_files, load_job
from launcher.specs import (
    BindMount,
    DeviceMount,
    JobKey,
    Lifecycle,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    digest,
    document,
)
from launcher.specs.resources import get_named_resources, named_resources
from tests.unit.jobfile.words import HEAD, ROLES, SCHEDULERS, compile_text, git, launch, lines

FULL = """\
version: 1
name: mnist
description: Train MNIST on two replicas.
project: vision
vars:
  epochs: {type: int, default: 3}
scheduler: local_dir
cfg: {log_dir: logs, prepend_cwd: false, grace_s: 10}
roles:
  trainer:
    image: /img
    entrypoint: python
    args: [-m, train, --epochs, $<var.epochs>, --run, $<app_id>]
    env: {RUN_ID: $<app_id>, OMP_NUM_THREADS: 4}
    num_replicas: 2
    min_replicas: 1
    max_retries: 2
    retry_policy: replica
    resource: {cpu: 2, gpu: 0, memory: 4GiB}
    port_map: {tcp_store: 29500}
    mounts:
      - {type: bind, src: ~/data, dst: /data, read_only: true}
      - {type: volume, src: cache, dst: /cache}
      - {type: device, src: /dev/fuse, permissions: rw}
      - type=bind,src=./conf,dst=/conf,readonly
    metadata: {tier: [gold, {n: 1}]}
  reader: {entrypoint: cat, resource: cpu.small}
metadata: {team: vision, floor: 3}
timeout: 1h30m
lifecycle: {on_change: hold, on_failed: rerun, max_attempts: 3, protect: true}
enabled: false
"""

FULL_TOML = """\
version = 1
name = "mnist"
description = "Train MNIST on two replicas."
project = "vision"
scheduler = "local_dir"
timeout = 5400
enabled = false
metadata = {team = "vision", floor = 3}
cfg = {log_dir = "logs"}
vars.epochs = {type = "int", default = 3}

[roles.trainer]
image = "/img"
entrypoint = "python"
args = ["-m", "train", "--epochs", "$<var.epochs>", "--run", "$<app_id>"]
env = {RUN_ID = "$<app_id>", OMP_NUM_THREADS = 4}
num_replicas = 2
min_replicas = 1
max_retries = 2
retry_policy = "replica"
resource = {cpu = 2, gpu = 0, memMB = 4096}
port_map.tcp_store = 29500
mounts = ["type=device,src=/dev/fuse,perm=rw", "type=volume,src=cache,dst=/cache"]
metadata.tier = ["gold", {n = 1}]
[[roles.trainer.x-note]]
[roles.reader]
entrypoint = "cat"
resource = "cpu.small"
[lifecycle]
on_change = "hold"
on_failed = "rerun"
max_attempts = 3
protect = true
"""


def test_every_field_reaches_the_launch(tmp_path: Path) -> None:
    made = launch(tmp_path, FULL)
    assert made.app.roles == [
        Role(
            name="trainer", image="/img", min_replicas=1, entrypoint="python",
            args=["-m", "train", "--epochs", "3", "--run", "$<app_id>"],
            env={"RUN_ID": "$<app_id>", "OMP_NUM_THREADS": "4"}, num_replicas=2, max_retries=2,
            retry_policy=RetryPolicy.REPLICA, resource=Resource(cpu=2, gpu=0, memMB=4096),
            port_map={"tcp_store": 29500}, metadata={"tier": ["gold", {"n": 1}]},
            mounts=[BindMount("~/data", "/data", True), VolumeMount("cache", "/cache"),
                DeviceMount("/dev/fuse", "/dev/fuse", "rw"), BindMount("./conf", "/conf", True)],
        ),
        Role(name="reader", image="", entrypoint="cat", resource=Resource(cpu=1, gpu=0, memMB=2048)),
    ]  # fmt: skip
    assert made.key == JobKey("vision", "default", "mnist")
    assert made.app.metadata == {"team": "vision", "floor": "3"}
    assert (made.scheduler, made.timeout_s, made.enabled) == ("local_dir", 5400, False)
    assert made.description == "Train MNIST on two replicas."
    assert made.lifecycle == Lifecycle(on_change="hold", on_failed="rerun", max_attempts=3, protect=True)


def test_options_at_their_default_are_left_out(tmp_path: Path) -> None:
    assert launch(tmp_path, FULL).cfg == {"log_dir": "logs"}


def test_key_order_and_quoting_do_not_matter_but_the_order_of_roles_does(tmp_path: Path) -> None:
    one = launch(tmp_path, HEAD + "roles:\n  a: {entrypoint: x, env: {A: '1', B: 2}}\n  b: {entrypoint: y}\n")
    two = launch(tmp_path, "roles: {a: {env: {B: '2', A: 1}, entrypoint: x}, b: {entrypoint: 'y'}}\n" + HEAD)
    swapped = launch(tmp_path, HEAD + "roles: {b: {entrypoint: y}, a: {entrypoint: x, env: {A: 1, B: 2}}}\n")
    assert document(one) == document(two)
    assert digest(document(one)) != digest(document(swapped))


def test_compiling_twice_answers_the_same(tmp_path: Path) -> None:
    variables = {"epochs": "5"}
    first, second = (compile_text(tmp_path, FULL, variables=variables) for _ in range(2))
    assert second._replace(traces={}) == first._replace(traces={})
    assert variables == {"epochs": "5"}


def test_load_job_takes_python_values(tmp_path: Path) -> None:
    path = tmp_path / "j.launcher.yaml"
    path.write_text(FULL)
    made = load_job(path, vars={"epochs": 5})
    assert made.app.roles[0].args[3] == "5"
    assert load_job(str(path), vars={"epochs": 5}, schedulers=SCHEDULERS) != made  # defaults known: left out


def test_load_job_raises_with_every_diagnostic(tmp_path: Path) -> None:
    path = tmp_path / "j.launcher.yaml"
    path.write_text(HEAD + "nome: 1\n")
    with pytest.raises(
        JobFileError, match=r"j\.launcher\.yaml:1:1: the job has no `roles` \(and 1 more\)"
    ) as caught:
        load_job(path)
    assert [found.code for found in caught.value.diagnostics] == ["missing-field", "unknown-field"]
    with pytest.raises(JobFileError, match="no such file"):
        load_job(tmp_path / "none.yaml")
    (tmp_path / "k.launcher.yaml").write_text(HEAD + ROLES)
    path.write_text(HEAD.replace("job", "other") + ROLES)
    with pytest.raises(JobFileError, match="holds 2 jobs"):
        load_job(tmp_path)


def test_without_schedulers_options_are_left_for_the_plan(tmp_path: Path) -> None:
    (tmp_path / "j.launcher.yaml").write_text(HEAD + "scheduler: other\ncfg: {a: 1}\n" + ROLES)
    assert load_job(tmp_path / "j.launcher.yaml").cfg == {"a": 1}


def test_the_memory_of_the_largest_named_resource_can_be_written_out(tmp_path: Path) -> None:
    mebibytes = max(get_named_resources(name).memMB for name in named_resources)
    text = HEAD + f"roles: {{m: {{entrypoint: x, resource: {{memMB: {mebibytes}}}}}}}\n"
    assert launch(tmp_path, text).app.roles[0].resource.memMB == mebibytes


def test_a_very_long_duration_is_refused_at_once(tmp_path: Path) -> None:
    (error,) = compile_text(tmp_path, HEAD + f"timeout: {'1s' * 100_000}\n" + ROLES).errors
    assert "is no duration" in error.message


def write(path: Path, name: str = "job", more: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"version: 1\nname: {name}\n{more}{ROLES}")


def files(folder: Path, *paths: str) -> list[str]:
    compiled = compile_files(list(paths), environment=Environment(cwd=str(folder)))
    assert compiled.errors == (), lines(compiled)
    return [made.key.job for made in compiled.launches]


def test_a_directory_means_every_job_file_below_it(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    for name in (
        "b.launcher.yaml", "a.launcher.yml", "sub/c.launcher.yaml", ".hidden/d.launcher.yaml", "e.yaml",
    ):  # fmt: skip
        write(folder / name, Path(name).name[0])
    (folder / "f.launcher.toml").write_text('version=1\nname="f"\nroles.m.entrypoint="x"\n')
    assert files(folder, ".") == ["a", "b", "f", "c"]
    assert files(folder, "sub", "e.yaml", ".", "sub/c.launcher.yaml") == ["c", "e", "a", "b", "f"]
    assert files(folder, ".hidden") == ["d"]


def test_files_that_git_ignores_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    for name in ("a", "b", "c"):
        write(folder / f"{name}/{name}.launcher.yaml", name)
    git(folder, "init")
    (folder / ".gitignore").write_text("b/\nc.launcher.yaml\n")
    git(folder, "add", "-f", "c/c.launcher.yaml")  # tracked: not ignored, whatever the patterns say
    assert files(folder, ".") == ["a", "c"]
    assert files(folder, "b/b.launcher.yaml") == ["b"]


def test_two_files_with_one_job_name_each_other(tmp_path: Path) -> None:
    write(tmp_path / "w" / "a.launcher.yaml")
    write(tmp_path / "w" / "b.launcher.yaml")
    compiled = compile_files(["w"], environment=Environment(cwd=str(tmp_path)))
    (found,) = compiled.errors
    assert (found.code, found.file) == ("duplicate-job", "w/b.launcher.yaml")
    assert "w/a.launcher.yaml" in found.message
    assert found.related[0].file == "w/a.launcher.yaml"
    write(tmp_path / "w" / "b.launcher.yaml", more="project: other\n")
    assert files(tmp_path, "w") == ["job", "job"]


def test_the_nearest_launcher_toml_sets_project_and_root(tmp_path: Path) -> None:
    top = tmp_path / "w"
    write(top / "a.launcher.yaml", "a")
    write(top / "sub" / "deep" / "b.launcher.yaml", "b")
    write(top / "sub" / "deep" / "c.launcher.yaml", "c", "project: own\n")
    (top / "launcher.toml").write_text('project = "top"\n')
    (top / "sub" / "launcher.toml").write_text('project = "sub"\n[schedulers.local_cwd]\n')
    compiled = compile_files(["w"], environment=Environment(cwd=str(tmp_path)))
    found = {made.key.job: (made.key.project, made.root, made.file) for made in compiled.launches}
    assert found == {
        "a": ("top", str(top), "a.launcher.yaml"),
        "b": ("sub", str(top / "sub"), "deep/b.launcher.yaml"),
        "c": ("own", str(top / "sub"), "deep/c.launcher.yaml"),
    }


def test_without_git_the_folder_is_root_and_origin(tmp_path: Path) -> None:
    write(tmp_path / "w" / "a.launcher.yaml")
    made = load_job(tmp_path / "w" / "a.launcher.yaml")
    assert (made.root, made.origin, made.file) == (
        str(tmp_path / "w"), str(tmp_path / "w"), "a.launcher.yaml",
    )  # fmt: skip
    assert made.key.project == "default"


def test_in_git_the_work_tree_is_root_and_the_remote_the_origin(tmp_path: Path) -> None:
    top = tmp_path / "w"
    write(top / "jobs" / "a.launcher.yaml")
    (tmp_path / "launcher.toml").write_text('project = "above"\n')  # above the work tree: not ours
    git(top, "init")
    git(top, "remote", "add", "origin", "https://me:pw@Host.example/team/jobs.git")
    made = load_job(top / "jobs" / "a.launcher.yaml")
    assert (made.root, made.file) == (str(top), "jobs/a.launcher.yaml")
    assert made.origin == "host.example/team/jobs"
    assert made.key.project == "default"


def test_relative_paths_do_not_depend_on_the_current_directory(tmp_path, monkeypatch):
    write(tmp_path / "w" / "a.launcher.yaml")
    monkeypatch.chdir(tmp_path)
    first = load_job("w/a.launcher.yaml")
    monkeypatch.chdir(tmp_path / "w")
    assert load_job("a.launcher.yaml") == first
    assert load_job(os.path.join("..", "w", "a.launcher.yaml")) == first


def test_a_file_is_named_as_the_user_typed_it(tmp_path: Path) -> None:
    write(tmp_path / "w" / "a.launcher.yaml", more="nome: 1\n")
    environment = Environment(cwd=str(tmp_path))
    for typed, shown in (
        ("w", "w/a.launcher.yaml"),
        ("./w/../w/a.launcher.yaml", "./w/../w/a.launcher.yaml"),
    ):
        assert [found.file for found in compile_files([typed], environment=environment).errors] == [shown]
