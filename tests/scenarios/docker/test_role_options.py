"""Options that a role sets for its containers, as the processes inside see them."""

import json

import pytest

from tests.engines.images import SHELL_IMAGE

SYS_PTRACE = "set -- $(grep CapBnd /proc/self/status); echo $((0x$2 >> 19 & 1))"
"""Bit 19 of the capabilities of a process. Source: capability.h of Linux."""

OPTIONS = [
    ("shm_size", "8m", "df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2", "8192", "65536"),
    ("ulimits", {"nofile": "64:128"}, "echo $(ulimit -Sn) $(ulimit -Hn)", "64 128", None),
    ("tmpfs", ["/cache:size=4m,mode=1777"], "grep ' /cache ' /proc/mounts | cut -d' ' -f3", "tmpfs", ""),
    ("cap_add", ["SYS_PTRACE"], SYS_PTRACE, "1", "0"),
    ("user", 1234, "id -u", "1234", "0"),
    (
        "extra_hosts",
        {"db.internal": "10.9.8.7"},
        "grep -o '10.9.8.7.*' /etc/hosts",
        "10.9.8.7\tdb.internal",
        "",
    ),
    ("read_only", True, "touch /made 2>/dev/null && echo written || echo refused", "refused", "written"),
]
"""Option, value, what looks at it in a container, what it then shows, what it shows without the option."""


def job_of(scenario, look: str, *, top: dict, role: dict):
    """A job whose role `main` has options of its own, and `other` has none; both look at the same thing."""
    text = f"""version: 1
name: job
scheduler: local_docker
cfg: {json.dumps(top)}
defaults: {{role: {{image: "{SHELL_IMAGE}", run: {json.dumps(look + " || true")}}}}}
roles: {{main: {{cfg: {json.dumps(role)}}}, other: {{}}}}
"""
    return scenario.write("job.launcher.yaml", text)


def seen(scenario, role: str) -> str:
    return scenario.logs(f"job/{role}", "--no-prefix").removesuffix("\n")


@pytest.mark.parametrize(("option", "value", "look", "shown", "otherwise"), OPTIONS)
def test_an_option_of_a_role_reaches_its_containers_alone(scenario, option, value, look, shown, otherwise):
    scenario.run_to_end(job_of(scenario, look, top={}, role={option: value}))
    assert seen(scenario, "main") == shown
    other = seen(scenario, "other")
    assert other == otherwise or (otherwise is None and other != shown)


@pytest.mark.parametrize(("option", "value", "look", "shown", "otherwise"), OPTIONS)
def test_an_option_of_the_job_is_the_default_of_its_roles(scenario, option, value, look, shown, otherwise):
    scenario.run_to_end(job_of(scenario, look, top={option: value}, role={}))
    assert (seen(scenario, "main"), seen(scenario, "other")) == (shown, shown)


def test_a_changed_option_of_a_role_is_a_change_of_the_job(scenario):
    scenario.run_to_end(job_of(scenario, "true", top={}, role={"shm_size": "8m"}))
    file = job_of(scenario, "true", top={}, role={"shm_size": "9m"})
    assert scenario.actions(file) == {"job": "create"}
    assert 'roles.main.cfg.shm_size: "8m" → "9m"' in scenario.launcher("plan", file).out
    same = job_of(scenario, "true", top={"shm_size": "8m"}, role={"shm_size": "8m"})
    assert "cfg.shm_size" in scenario.launcher("plan", same).out
