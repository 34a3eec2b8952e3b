"""Problems and notes of an app on Slurm."""

import math
from typing import Any

import pytest

from launcher.schedulers.checks import BUILT_IMAGE, RejectedAppError
from launcher.schedulers.slurm.rules import check, notes, problems
from launcher.specs import AppDef, BindMount, DeviceMount, Probe, Resource, Role, VolumeMount
from tests.unit.slurm.requests import role


def found(*roles: Role, **cfg: Any) -> list[tuple[str, str]]:
    """Return the dotted path and the message of each problem."""
    found = problems(AppDef("app", list(roles)), cfg)
    return [(".".join(map(str, each.path)), each.message) for each in found]


def sized(name: str = "r", *, cpu: float = 1, gpu: float = 0, memory: float = 0, kind: str = "") -> Role:
    capabilities = {"gpu_type": kind} if kind else {}
    return role(name, resource=Resource(cpu, gpu, memory, capabilities=capabilities))


SERVER = role("server", ready=Probe(port=80), args=["$<role.client.host>"])
BETWEEN = role("between", depends_on={"server": "ready"})
CLIENT = role("client", depends_on={"between": "succeeded"})
FIRST = role("a")
SECOND = role("b", service=True, ready=Probe(port=80), depends_on={"a": "succeeded"})
LATE, EARLY = role("late", depends_on={"early": "started"}), role("early", args=["$<rank0_host>"])


@pytest.mark.parametrize(("roles", "cfg", "path", "words"), [
    ([role(image="busybox")], {}, "roles.r.image", 'write `image: ""` in the target for Slurm'),
    ([role(mounts=[VolumeMount("data", "/data")])], {}, "roles.r.mounts.0", "no volumes"),
    ([role(mounts=[DeviceMount("/dev/fuse", "/dev/fuse")])], {}, "roles.r.mounts.0", "gres"),
    ([role(mounts=[BindMount("/x", "/data")])], {}, "roles.r.mounts.0", "does not appear at `/data`"),
    ([role(resource=Resource(1, 0, 100, devices={"vpc.amazonaws.com/efa": 1}))], {},
        "roles.r.resource.devices.vpc.amazonaws.com/efa", "gres"),
    ([sized("a"), sized("b", gpu=2)], {}, "roles.b.resource.gpu", "equal shares"),
    ([sized("a", gpu=2, kind="a100"), sized("b", gpu=2, kind="h100")], {},
        "roles.b.resource.capabilities.gpu_type", "those of `a` of `a100`"),
    ([sized(gpu=0.5)], {}, "roles.r.resource.gpu", "want a whole number"),
    ([role(args=["a\x01b"])], {}, "roles.r.args.0", "U+0001"),
    ([role(env={"A": "\x01dir\x01"})], {}, "roles.r.env.A", "U+0001"),
    ([SERVER, BETWEEN, CLIENT], {}, "roles.server.args.0", "role `client` starts after `server`"),
    ([LATE, EARLY], {}, "roles.early.args.0", "role `late` starts after `early`"),
    ([role(num_replicas=2)], {"nodes": 3}, "cfg.nodes", "want 2 or fewer"),
    ([role(num_replicas=5)], {"nodes": 2, "ntasks_per_node": 2}, "cfg.ntasks_per_node",
        "2 nodes with 2 each hold no 5 replicas; want 3 or more"),
    ([role()], {"setup": ["true", "one\ntwo"]}, "cfg.setup.1", "one line"),
    ([role()], {"setup": ["true", "one\rtwo"]}, "cfg.setup.1", "one line"),
    ([role()], {"setup": ["true", "#SBATCH --time=1"]}, "cfg.setup.1", "`sbatch`"),
    ([role()], {"setup": ["true", "  #SBATCH --time=1"]}, "cfg.setup.1", "`sbatch`"),
    ([sized(memory=100)], {"sbatch": {"mem": "0"}}, "cfg.sbatch.mem", "nomem: true"),
])  # fmt: skip
def test_an_app_that_slurm_cannot_run_is_refused_with_the_field(roles, cfg, path, words):
    [(found_path, message)] = found(*roles, **cfg)
    assert found_path == path
    assert words in message


@pytest.mark.parametrize(("roles", "cfg"), [
    ([sized(cpu=2, gpu=1)], {"partition": "gpu"}),
    ([role(image=BUILT_IMAGE)], {}),  # a workspace that is copied
    ([role(mounts=[BindMount("/data", "/data")])], {}),
    ([sized("a"), sized("b", gpu=2)], {"gres": "gpu:2"}),
    ([role("a"), sized("b")], {}),
    ([sized("a", gpu=2, kind="a100"), sized("b", gpu=2, kind="h100")], {"gres": "gpu:2"}),
    ([sized("a", gpu=2, kind="a100"), sized("b", gpu=2, kind="a100")], {}),
    ([sized("a", gpu=2), sized("b", gpu=2, kind="a100")], {}),
    ([role("a", args=["$<role.b.host>", "$<rank0_host>"]), role("b")], {}),
    ([role("a"), role("b", args=["$<role.a.host>"], depends_on={"a": "started"})], {}),
    ([role(num_replicas=2)], {"nodes": 2}),
    ([role(num_replicas=5)], {"nodes": 2, "ntasks_per_node": 3}),
    ([sized(memory=100)], {"sbatch": {"mem": "0"}, "nomem": True}),
    ([role()], {"sbatch": {"mem": "0"}}),
    ([role()], {"sbatch": {"zzqx-frobnicate": "1"}}),  # an option of a plug-in
])  # fmt: skip
def test_an_app_that_slurm_can_run_has_no_problem(roles, cfg):
    assert found(*roles, **cfg) == []


def test_a_rejected_app_names_every_problem():
    with pytest.raises(RejectedAppError) as caught:
        check(AppDef("app", [role(image="busybox", mounts=[VolumeMount("data", "/data")])]), {})
    assert "roles.r.image" in str(caught.value)
    assert "roles.r.mounts.0" in str(caught.value)


@pytest.mark.parametrize("field", ["cpu", "gpu", "memMB"])
def test_an_amount_without_end_is_a_problem_and_no_failure(field):
    app = AppDef("app", [role(resource=Resource(**{"cpu": 1, "gpu": 0, "memMB": 1, field: math.inf}))])
    with pytest.raises(RejectedAppError, match=rf"roles\.r\.resource\.{field}"):
        check(app, {"sbatch": {"mem": "0"}})


@pytest.mark.parametrize(("name", "value", "words"), [
    ("partition", "1", "write `partition` beside `sbatch`"), ("chdir", "1", "write `workdir` beside"),
    ("ntasks-per-node", "1", "write `ntasks_per_node` beside"), ("--time", "1", "write `time` beside"),
    ("array", "1", "use `matrix`"), ("dependency", "1", "use `needs`"), ("output", "1", "launcher logs"),
    ("job-name", "1", "app id"), ("export-file", "1", "`env` of the role"),
    ("wrap", "1", "the command is that of the roles"), ("cpus_per_task", "1", "resource.cpu"),
    ("--exclusive", "1", "want the long name"), ("mail_user", "1", "want the long name"),
    ("reservaton", "1", "sbatch has no option `reservaton`; did you mean `reservation`?"),
    *((name, "1", "option") for name in ("", "a b", "x=y", "-", "new\nline")),
    *(("reservation", value, "") for value in ("one\ntwo", "bell\x07", "tab\t")),
])  # fmt: skip
def test_an_option_or_value_that_sbatch_cannot_get_is_refused_with_the_remedy(name, value, words):
    [(path, message)] = found(role(), sbatch={name: value})
    assert path == f"cfg.sbatch.{name}"
    assert words in message


@pytest.mark.parametrize(("fields", "cfg", "shown"), [
    ({"resource": Resource(1.5, 0, 0)}, {}, "each replica gets 2 cores"),
    ({"resource": Resource(1, 0, 10)}, {"nomem": True}, "memory is not requested"),
    ({"resource": Resource(1, 0, 32)}, {}, "up to 25 MiB more memory are requested"),
    ({"resource": Resource(1, 0, 1024)}, {}, "processes take 25 MiB of the memory of each replica"),
    ({"resource": Resource(1, 2, 0)}, {"gres": "gpu:2"}, "its GPUs are not requested"),
    ({"resource": Resource(1, 0, 0, capabilities={"a": "b"})}, {}, "option constraint"),
    ({"resource": Resource(1, 2, 0, capabilities={"gpu_type": "a"})}, {"gres": "gpu:2"}, "not requested"),
    ({"port_map": {"http": 80}}, {}, "ports are not mapped"),
    ({"num_replicas": 2, "min_replicas": 1}, {}, "all 2 replicas or none"),
    ({"env": {"LAUNCHER_SCRATCH": "/x"}}, {}, "LAUNCHER_SCRATCH is not used"),
    ({}, {"sbatch": {"zzqx-frobnicate": "1"}}, "a plug-in of the cluster"),
    ({}, {"time": "1h", "timeout_s": 3600}, "before its timeout of 3600 s"),
])  # fmt: skip
def test_fields_that_slurm_treats_differently_are_noted(fields, cfg, shown):
    [note] = notes(AppDef("app", [role(**fields)]), cfg)
    assert shown in note


@pytest.mark.parametrize(("roles", "noted"), [
    ([sized(cpu=2, gpu=1)], []),
    (
        [sized("a", memory=100), sized("b", cpu=4, memory=300)],
        ["each replica gets 4 cores: whole ones, and all replicas of a job alike",
            "each replica gets 300 MiB of memory: all replicas of a job alike",
            "up to 25 MiB more memory are requested for launcher's own processes"],
    ),
    ([sized("a", gpu=2), sized("b", gpu=2, kind="a100")],
        ["role `a`: its GPUs are of the kind `a100`: all replicas of a job alike"]),
    ([role(mounts=[BindMount("/data", "/data")])],
        ["role `r`: mounts are not made by slurm; the paths of its nodes are used"]),
    ([FIRST, SECOND], ["role `a`: no LAUNCHER_HOST_B, for it may start before that host is known"]),
    ([SECOND, FIRST], ["role `a`: no LAUNCHER_RANK0_HOST and LAUNCHER_HOST_B, for it may start before that"
        " host is known"]),
])  # fmt: skip
def test_differences_between_roles_are_noted(roles, noted):
    assert notes(AppDef("app", roles), {}) == noted
