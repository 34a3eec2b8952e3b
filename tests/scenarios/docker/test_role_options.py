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
    ("extra_hosts", {"db.internal": "10.9.8.7"}, "grep -o '10.9.8.7.*' /etc/hosts", "10.9.8.7\tdb.internal",
        ""),
    ("read_only", True, "touch /made 2>/dev/null && echo written || echo refused", "refused", "written"),
]  # fmt: skip
"""Option, value, what looks at it in a container, what it then shows, what it shows without the option."""


def job_of(scenario, look: str, *, top: dict, role: dict):
    """Write a job whose role `main` has options and whose role `other` has none; both run `look`."""
    text = f"""version: 1
name: job
scheduler: local_docker
cfg: {json.dumps(top)}
defaults: {{role: {{image: "{SHELL_IMAGE}", run: {json.dumps(look + " || true")}}}}}
roles: {{main: {{cfg: {json.dumps(role)}}}, other: {{}}}}
"""
    return scenario.write("job.launcher.yaml", text)


def seen(scenario, role: str) -> list[str]:
    return scenario.logs(f"job/{role}", "--no-prefix").splitlines()


GROUPS = {"of root": [each for each in OPTIONS if each[0] != "user"], "user": [OPTIONS[4]]}
"""What can be looked at in one container: another user may not write its root anyway."""


@pytest.fixture(params=GROUPS)
def group(request):
    """Options with their values, what looks at all of them, what it then shows, and shows without them."""
    names, values, looks, shown, otherwise = zip(*GROUPS[request.param], strict=True)
    look = "; ".join(f'echo "[$({each})]"' for each in looks)
    return dict(zip(names, values, strict=True)), look, shown, otherwise


def test_options_of_a_role_reach_its_containers_alone(scenario, group):
    options, look, shown, otherwise = group
    scenario.run_to_end(job_of(scenario, look, top={}, role=options))
    assert seen(scenario, "main") == [f"[{each}]" for each in shown]
    for got, with_it, without in zip(seen(scenario, "other"), shown, otherwise, strict=True):
        assert got == f"[{without}]" or (without is None and got != f"[{with_it}]")


def test_a_changed_option_of_a_role_is_a_change_of_the_job(scenario):
    scenario.run_to_end(job_of(scenario, "true", top={}, role={"shm_size": "8m"}))
    file = job_of(scenario, "true", top={}, role={"shm_size": "9m"})
    assert scenario.actions(file) == {"job": "create"}
    assert 'roles.main.cfg.shm_size: "8m" → "9m"' in scenario.launcher("plan", file).out
    same = job_of(scenario, "true", top={"shm_size": "8m"}, role={"shm_size": "8m"})
    assert "cfg.shm_size" in scenario.launcher("plan", same).out
