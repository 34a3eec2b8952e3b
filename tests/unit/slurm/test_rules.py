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
    return [
        (".".join(map(str, each.path)), each.message) for each in problems(AppDef("app", list(roles)), cfg)
    ]


def path_of(*roles: Role, **cfg: Any) -> str:
    [(path, _)] = found(*roles, **cfg)
    return path


def message_of(*roles: Role, **cfg: Any) -> str:
    [(_, message)] = found(*roles, **cfg)
    return message


def test_a_plain_app_has_no_problem_and_no_note():
    assert found(role(resource=Resource(2, 1, 0)), partition="gpu") == []
    assert notes(AppDef("app", [role(resource=Resource(2, 1, 0))]), {}) == []


def test_an_image_is_refused_with_what_to_write():
    assert path_of(role(image="busybox")) == "roles.r.image"
    assert 'write `image: ""` in the target for Slurm' in message_of(role(image="busybox"))


def test_a_workspace_that_is_copied_is_no_image():
    assert found(role(image=BUILT_IMAGE)) == []


def test_a_rejected_app_names_every_problem():
    with pytest.raises(RejectedAppError) as caught:
        check(AppDef("app", [role(image="busybox", mounts=[VolumeMount("data", "/data")])]), {})
    assert "roles.r.image" in str(caught.value)
    assert "roles.r.mounts.0" in str(caught.value)


@pytest.mark.parametrize(
    ("mount", "shown"),
    [
        (VolumeMount("data", "/data"), "no volumes"),
        (DeviceMount("/dev/fuse", "/dev/fuse"), "gres"),
        (BindMount("/scratch/data", "/data"), "does not appear at `/data`"),
    ],
)
def test_a_mount_is_refused(mount, shown):
    assert path_of(role(mounts=[mount])) == "roles.r.mounts.0"
    assert shown in message_of(role(mounts=[mount]))


def test_a_folder_that_is_mounted_at_its_own_path_is_accepted():
    app = AppDef("app", [role(mounts=[BindMount("/data", "/data")])])
    assert [*problems(app, {})] == []
    assert notes(app, {}) == ["role `r`: mounts are not made by slurm; the paths of its nodes are used"]


def test_devices_of_a_resource_are_requested_by_gres():
    resource = Resource(1, 0, 100, devices={"vpc.amazonaws.com/efa": 1})
    assert path_of(role(resource=resource)) == "roles.r.resource.devices.vpc.amazonaws.com/efa"
    assert "gres" in message_of(role(resource=resource))


def test_roles_that_differ_in_their_gpus_are_refused_unless_gres_requests_them():
    roles = role("a", resource=Resource(1, 0, 1)), role("b", resource=Resource(1, 2, 1))
    assert path_of(*roles) == "roles.b.resource.gpu"
    assert found(*roles, gres="gpu:2") == []
    assert found(role("a"), role("b", resource=Resource(1, 0, 1))) == []


def gpus(count: int, kind: str) -> Resource:
    return Resource(1, count, 0, capabilities={"gpu_type": kind})


def test_roles_that_differ_in_the_kind_of_their_gpus_are_refused_unless_gres_requests_them():
    roles = role("a", resource=gpus(2, "a100")), role("b", resource=gpus(2, "h100"))
    assert path_of(*roles) == "roles.b.resource.capabilities.gpu_type"
    assert "those of `a` of `a100`" in message_of(*roles)
    assert found(*roles, gres="gpu:2") == []
    assert found(roles[0], role("b", resource=gpus(2, "a100"))) == []


def test_a_role_that_names_no_kind_of_gpu_gets_the_kind_of_the_other_roles():
    roles = [role("a", resource=Resource(1, 2, 0)), role("b", resource=gpus(2, "a100"))]
    assert found(*roles) == []
    assert notes(AppDef("app", roles), {}) == [
        "role `a`: its GPUs are of the kind `a100`: all replicas of a job alike"
    ]


def test_half_a_gpu_is_refused():
    assert path_of(role(resource=Resource(1, 0.5, 1))) == "roles.r.resource.gpu"


@pytest.mark.parametrize("field", ["cpu", "gpu", "memMB"])
def test_an_amount_without_end_is_a_problem_and_no_failure(field):
    app = AppDef("app", [role(resource=Resource(**{"cpu": 1, "gpu": 0, "memMB": 1, field: math.inf}))])
    with pytest.raises(RejectedAppError, match=rf"roles\.r\.resource\.{field}"):
        check(app, {"sbatch": {"mem": "0"}})


@pytest.mark.parametrize("text", ["a\x01b", "\x01dir\x01"])
def test_the_mark_that_nodes_replace_is_refused_in_texts(text):
    assert path_of(role(args=[text])) == "roles.r.args.0"
    assert path_of(role(env={"A": text})) == "roles.r.env.A"


def test_the_host_of_a_role_that_starts_later_is_refused():
    server = role("server", ready=Probe(port=80), args=["$<role.client.host>"])
    between = role("between", depends_on={"server": "ready"})
    client = role("client", depends_on={"between": "succeeded"})
    assert path_of(server, between, client) == "roles.server.args.0"
    assert "role `client` starts after `server`" in message_of(server, between, client)


def test_the_host_of_the_first_role_is_refused_where_that_role_starts_later():
    assert (
        path_of(role("late", depends_on={"early": "started"}), role("early", args=["$<rank0_host>"]))
        == "roles.early.args.0"
    )


def test_hosts_of_earlier_and_of_simultaneous_roles_are_known():
    assert found(role("a", args=["$<role.b.host>", "$<rank0_host>"]), role("b")) == []
    assert found(role("a"), role("b", args=["$<role.a.host>"], depends_on={"a": "started"})) == []


def test_more_nodes_than_replicas_are_refused():
    assert path_of(role(num_replicas=2), nodes=3) == "cfg.nodes"
    assert "want 2 or fewer" in message_of(role(num_replicas=2), nodes=3)
    assert found(role(num_replicas=2), nodes=2) == []


def test_nodes_that_hold_too_few_replicas_are_refused():
    shown = message_of(role(num_replicas=5), nodes=2, ntasks_per_node=2)
    assert shown == "2 nodes with 2 each hold no 5 replicas; want 3 or more"
    assert found(role(num_replicas=5), nodes=2, ntasks_per_node=3) == []


@pytest.mark.parametrize("line", ["one\ntwo", "one\rtwo", "#SBATCH --time=1", "  #SBATCH --time=1"])
def test_a_setup_line_is_one_line_of_bash(line):
    assert path_of(role(), setup=["module load cuda", line]) == "cfg.setup.1"


def test_a_slip_in_an_option_of_sbatch_is_named_with_the_nearest():
    path, message = found(role(), sbatch={"reservaton": "x"})[0]
    assert path == "cfg.sbatch.reservaton"
    assert message == "sbatch has no option `reservaton`; did you mean `reservation`?"


@pytest.mark.parametrize("name", ["--exclusive", "mail_user"])
def test_an_option_in_another_spelling_is_corrected(name):
    assert "want the long name" in message_of(role(), sbatch={name: ""})


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("partition", "write `partition` beside `sbatch`"),
        ("ntasks-per-node", "write `ntasks_per_node` beside"),
        ("chdir", "write `workdir` beside"),
        ("--time", "write `time` beside"),
        ("array", "use `matrix`"),
        ("dependency", "use `needs`"),
        ("output", "launcher logs"),
        ("job-name", "app id"),
        ("export-file", "`env` of the role"),
        ("wrap", "the command is that of the roles"),
        ("cpus_per_task", "resource.cpu"),
    ],
)
def test_an_option_that_launcher_sets_itself_is_refused_with_the_remedy(name, remedy):
    assert path_of(role(), sbatch={name: "1"}) == f"cfg.sbatch.{name}"
    assert remedy in message_of(role(), sbatch={name: "1"})


def test_the_option_mem_of_sbatch_is_refused_when_roles_request_memory():
    sized = role(resource=Resource(1, 0, 100))
    assert path_of(sized, sbatch={"mem": "0"}) == "cfg.sbatch.mem"
    assert found(sized, sbatch={"mem": "0"}, nomem=True) == []
    assert found(role(), sbatch={"mem": "0"}) == []


@pytest.mark.parametrize("name", ["", "a b", "x=y", "-", "new\nline"])
def test_a_name_that_cannot_be_an_option_is_refused(name):
    assert len(found(role(), sbatch={name: "1"})) == 1


@pytest.mark.parametrize("value", ["one\ntwo", "bell\x07", "tab\t"])
def test_a_value_for_sbatch_is_one_line(value):
    assert path_of(role(), sbatch={"reservation": value}) == "cfg.sbatch.reservation"


def test_an_option_of_a_plug_in_passes_with_a_note():
    assert found(role(), sbatch={"zzqx-frobnicate": "1"}) == []
    [note] = notes(AppDef("app", [role()]), {"sbatch": {"zzqx-frobnicate": "1"}})
    assert "a plug-in of the cluster" in note


@pytest.mark.parametrize(
    ("fields", "cfg", "shown"),
    [
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
        ({}, {"time": "1h", "timeout_s": 3600}, "before its timeout of 3600 s"),
    ],
)
def test_fields_that_slurm_treats_differently_are_noted(fields, cfg, shown):
    [note] = notes(AppDef("app", [role(**fields)]), cfg)
    assert shown in note


def test_roles_of_unequal_size_are_noted():
    roles = [role("a", resource=Resource(1, 0, 100)), role("b", resource=Resource(4, 0, 300))]
    assert notes(AppDef("app", roles), {}) == [
        "each replica gets 4 cores: whole ones, and all replicas of a job alike",
        "each replica gets 300 MiB of memory: all replicas of a job alike",
        "up to 25 MiB more memory are requested for launcher's own processes",
    ]


def test_a_host_variable_that_a_role_cannot_have_is_noted():
    roles = [role("a"), role("b", service=True, ready=Probe(port=80), depends_on={"a": "succeeded"})]
    assert notes(AppDef("app", roles), {}) == [
        "role `a`: no LAUNCHER_HOST_B, for it may start before that host is known"
    ]
    assert notes(AppDef("app", roles[::-1]), {}) == [
        "role `a`: no LAUNCHER_RANK0_HOST and LAUNCHER_HOST_B, for it may start before that host is known"
    ]
