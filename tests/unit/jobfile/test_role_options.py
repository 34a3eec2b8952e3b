"""`cfg` of a role: the options that it keeps, refused options, and targets that drop it."""

from pathlib import Path
from typing import Any

import pytest

from launcher.jobfile import Compiled, Environment, compile_files
from launcher.schedulers.registry import SchedulerRules
from launcher.specs import AppDef, Role, check_app, digest, document

RULES = SchedulerRules()
JOB = """version: 1
name: job
scheduler: local_docker
{top}
roles:
  main: {{image: "busybox:1.37", entrypoint: env, cfg: {cfg}}}
  other: {{image: "busybox:1.37", entrypoint: env}}
"""


def compiled(folder: Path, cfg: str, top: str = "", target: str | None = None) -> Compiled:
    (folder / "job.launcher.yaml").write_text(JOB.format(cfg=cfg, top=top))
    environment = Environment(schedulers=RULES, rules=RULES.problems, cwd=str(folder))
    return compile_files(["job.launcher.yaml"], target=target, environment=environment)


def roles(made: Compiled) -> list[dict[str, Any]]:
    assert made.errors == ()
    return [role.cfg for role in made.launches[0].app.roles]


@pytest.mark.parametrize(("top", "cfg", "left"), [
    ("", "{read_only: false, cap_add: [SYS_PTRACE]}", {"cap_add": ["SYS_PTRACE"]}),
    ("cfg: {user: 1000}", "{user: 1000}", {}),
    ("cfg: {user: 1000}", "{user: '1000', shm_size: 1024}", {"shm_size": "1024"}),
    ("cfg: {read_only: true}", "{read_only: false}", {"read_only": False}),
    ("cfg: {tmpfs: [/run]}", "{tmpfs: [/tmp]}", {"tmpfs": ["/tmp"]}),
    ("defaults: {role: {cfg: {user: root}}}", "{shm_size: 8m}", {"user": "root", "shm_size": "8m"}),
])  # fmt: skip
def test_a_role_keeps_only_options_that_differ_from_the_options_of_the_job(tmp_path, top, cfg, left):
    assert roles(compiled(tmp_path, cfg, top))[0] == left


def test_options_that_change_nothing_leave_the_digest(tmp_path):
    plain, same = (
        compiled(tmp_path, cfg, "cfg: {user: 7}").launches[0] for cfg in ("{}", "{user: 7, read_only: false}")
    )
    assert digest(document(plain)) == digest(document(same))
    assert "cfg" not in document(same)["roles"][0]


def test_defaults_of_the_project_apply_to_the_options_of_roles(tmp_path):
    (tmp_path / "launcher.toml").write_text("[schedulers.local_docker]\nuser = 7\nulimits = {nofile = 64}\n")
    made = compiled(tmp_path, "{user: 7, ulimits: {nofile: 65}}")
    assert roles(made) == [{"ulimits": {"nofile": "65"}}, {}]
    assert made.launches[0].cfg == {"user": "7", "ulimits": {"nofile": "64"}}


@pytest.mark.parametrize(("target", "expected"), [
    ("{scheduler: local_cwd}", [{}, {}]),
    ("{scheduler: local_docker}", [{"user": "1", "shm_size": "8m"}, {"user": "1"}]),
    ("{timeout: 3m}", [{"user": "1", "shm_size": "8m"}, {"user": "1"}]),
    ("{roles: {main: {cfg: null}}}", [{}, {"user": "1"}]),
    ("{roles: {main: {cfg: {shm_size: null, user: 2}}}}", [{"user": "2"}, {"user": "1"}]),
])  # fmt: skip
def test_a_target_with_another_scheduler_drops_the_options_of_roles(tmp_path, target, expected):
    top = f"defaults: {{role: {{cfg: {{user: 1}}}}}}\ntargets: {{dev: {target}}}"
    assert roles(compiled(tmp_path, "{shm_size: 8m}", top, target="dev")) == expected


def test_an_option_of_the_whole_job_gets_the_advice_to_move_it_to_the_job(tmp_path):
    [found] = compiled(tmp_path, "{network: host}").errors
    assert (found.span.line, found.code) == (6, "unknown-option")
    assert found.label == "move it to `cfg` of the job"
    assert found.hint == "a role may set: cap_add, extra_hosts, read_only, shm_size, tmpfs, ulimits, user"


@pytest.mark.parametrize(("scheduler", "cfg", "shown"), [
    ("local_cwd", "{shm_size: 8m}", "local_cwd does not support `cfg`: run it on local_docker"),
    ("slurm", "{nodes: 2}", "option `nodes` is one of the whole job, and no role can set it"),
])  # fmt: skip
def test_a_scheduler_without_options_of_roles_refuses_them(tmp_path, scheduler, cfg, shown):
    text = JOB.format(cfg=cfg, top="").replace("local_docker", scheduler).replace('"busybox:1.37"', '""')
    (tmp_path / "job.launcher.yaml").write_text(text)
    environment = Environment(schedulers=RULES, rules=RULES.problems, cwd=str(tmp_path))
    [found] = compile_files(["job.launcher.yaml"], environment=environment).errors
    assert found.message.startswith(shown)


COMPONENT = """from launcher.specs import AppDef, Role
def f(size: str = "8m") -> AppDef:
    "Makes an app."
    cfg = {"shm_size": size, "user": 1, "read_only": False}
    return AppDef("x", [Role("main", "busybox:1.37", entrypoint="env", cfg=cfg)])
"""


@pytest.mark.parametrize(("size", "shown"), [("8m", None), ("lots", "roles.main.cfg.shm_size: ")])
def test_a_component_sets_options_of_its_roles(tmp_path, size, shown):
    (tmp_path / "c.py").write_text(COMPONENT)
    text = f"version: 1\nname: job\nscheduler: local_docker\ncomponent: c.py:f\nargs: {{size: {size}}}\n"
    (tmp_path / "job.launcher.yaml").write_text(text)
    environment = Environment(schedulers=RULES, rules=RULES.problems, cwd=str(tmp_path))
    made = compile_files(["job.launcher.yaml"], environment=environment)
    if shown is None:
        assert roles(made) == [{"shm_size": "8m", "user": "1"}]
    else:
        assert [(one.span.line, shown in one.message) for one in made.errors] == [(4, True)]


def test_an_option_of_a_role_has_a_name_and_no_macro():
    role = Role("r", "", entrypoint="env", cfg={"user": "$<replica_id>", "tmpfs": ["/$<x>"], 3: "a"})
    assert [(found.path[3:], found.code) for found in check_app(AppDef("a", [role]))] == [
        (("user",), "reference-phase"),
        (("tmpfs", 0), "unknown-reference"),
        (("3",), "unusable-name"),
    ]
