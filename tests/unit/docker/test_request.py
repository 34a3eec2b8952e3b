"""The request of local_docker: one container per replica, derived from the AppDef alone."""

from copy import deepcopy
from dataclasses import replace

import pytest

from launcher.schedulers.checks import RejectedAppError
from launcher.schedulers.docker.request import bind_request, build_request
from launcher.schedulers.docker.rules import options
from launcher.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    InvalidRunConfigException,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
)
from launcher.specs.secret import Secret

WORKER = Role(
    name="worker",
    image="web:1",
    entrypoint="python",
    args=["-m", "train", "$<app_id>", "$<replica_id>", "$$<app_id>"],
    env={"RANK": "$<replica_id>", "KEY": Secret("env:API_KEY"), "LAUNCHER_JOB_ID": "mine"},
    num_replicas=2,
    max_retries=3,
    retry_policy=RetryPolicy.REPLICA,
    resource=Resource(cpu=1.5, gpu=2, memMB=512, devices={"vpc.amazonaws.com/efa": 1}),
    port_map={"http": 8080},
    mounts=[
        BindMount("/data/$<app_id>", "/data", read_only=True),
        VolumeMount("models", "/models"),
        DeviceMount("/dev/fuse", "/dev/fuse", "rw"),
    ],
)
APP = AppDef("train", [Role("master", "web:1", entrypoint="serve"), WORKER])


def request(app=APP, app_id="train-1-abcde", session="demo", **cfg):
    return build_request(app, options().resolve(cfg), app_id, session=session)


def one(role=None, **cfg):
    """Return the first container of an app with this role alone."""
    return request(AppDef("a", [role or Role("r", "i", entrypoint="true")]), **cfg).containers[0]


def test_the_request_of_a_replica_has_every_field():
    container = request().containers[2]
    assert container.image == "web:1"
    assert container.command == ["python", "-m", "train", "train-1-abcde", "1", "$<app_id>"]
    assert container.kwargs == {
        "name": "train-1-abcde-worker-1",
        "hostname": "train-1-abcde-worker-1",
        "environment": {
            "TORCHELASTIC_ERROR_FILE": "/launcher/scratch/.error-worker-1.json",
            "PET_LOG_DIR": "/launcher/scratch/.torchelastic/worker-1", "RANK": "1",
            "KEY": Secret("env:API_KEY"), "LAUNCHER_JOB_ID": "local_docker://demo/train-1-abcde",
            "LAUNCHER_RANK0_HOST": "train-1-abcde-master-0", "LAUNCHER_SCRATCH": "/launcher/scratch",
        },
        "labels": {"launcher.role": "worker", "launcher.replica": "1", "launcher.part": "replica"},
        "network": "launcher",
        "mounts": [
            {"type": "volume", "source": "train-1-abcde-scratch", "target": "/launcher/scratch",
                "read_only": False},
            {"type": "bind", "source": "/data/train-1-abcde", "target": "/data", "read_only": True},
            {"type": "volume", "source": "models", "target": "/models", "read_only": False},
        ],
        "devices": ["/dev/fuse:/dev/fuse:rw", "/dev/infiniband/uverbs0:/dev/infiniband/uverbs0:rwm"],
        "restart_policy": {"Name": "on-failure", "MaximumRetryCount": 3},
        "mem_limit": "512m", "shm_size": "512m", "nano_cpus": 1_500_000_000,
        "device_requests": [
            {"count": 2, "device_ids": ["$<gpus>"], "capabilities": [["compute", "utility"]]}
        ],
        "privileged": False,
        "ports": {"8080/tcp": ("127.0.0.1", None)},
        "init": True,
        "log_config": {"type": "json-file", "config": {"max-size": "100m", "max-file": "5"}},
    }  # fmt: skip
    assert isinstance(container.kwargs["environment"]["KEY"], Secret)


def test_replicas_are_in_the_order_of_roles_and_numbers():
    assert [each.name for each in request().containers] == [
        "train-1-abcde-master-0",
        "train-1-abcde-worker-0",
        "train-1-abcde-worker-1",
    ]


def test_a_dry_run_leaves_the_app_and_the_options_alone():
    app, cfg = deepcopy(APP), options().resolve({"env": {"A": "1"}, "copy_env": ["X*"]})
    before = deepcopy(cfg)
    for _ in range(2):
        bind_request(build_request(app, cfg, session="s"), "a-1")
    assert app == APP
    assert cfg == before


def test_one_request_can_be_bound_more_than_once():
    symbolic = request(app_id="$<app_id>")
    text = str(symbolic)
    first, second = bind_request(symbolic, "a-1"), bind_request(symbolic, "a-2")
    assert (first.containers[1].name, second.containers[1].name) == ("a-1-worker-0", "a-2-worker-0")
    assert str(symbolic) == text
    assert bind_request(symbolic, "train-1-abcde") == request()


def test_the_symbolic_request_shows_where_the_app_id_goes():
    text = str(request(app_id="$<app_id>"))
    assert "name: '$<app_id>-worker-1'" in text
    assert "handle: 'local_docker://demo/$<app_id>'" in text
    assert "!!python" not in text


def test_a_secret_is_shown_as_its_reference_and_a_suspicious_literal_not_at_all():
    env = {"KEY": Secret("env:API_KEY"), "DB_PASSWORD": "hunter2"}
    role = replace(WORKER, env=env, args=["--token", "t0k"])
    text = str(request(AppDef("a", [role])))
    assert "(secret env:API_KEY)" in text
    assert "hunter2" not in text
    assert "t0k" not in text


def test_variables_of_the_role_win_over_the_option_and_variables_of_launcher_over_both():
    role = Role("r", "i", entrypoint="x", env={"A": "role", "PET_LOG_DIR": "/mine"})
    env = one(role, env={"A": "option", "B": "$<app_id>", "LAUNCHER_SCRATCH": "/x"}).kwargs["environment"]
    assert (env["A"], env["B"], env["PET_LOG_DIR"]) == ("role", "$<app_id>", "/mine")
    assert env["LAUNCHER_SCRATCH"] == "/launcher/scratch"


@pytest.mark.parametrize("policy", [RetryPolicy.APPLICATION, RetryPolicy.ROLE])
def test_the_engine_restarts_nothing_that_has_to_be_restarted_with_others(policy):
    job = request(AppDef("a", [replace(WORKER, retry_policy=policy)]))
    assert "restart_policy" not in job.containers[0].kwargs
    assert job.role_retries == {"worker": (3, policy.value)}


@pytest.mark.parametrize("policy", RetryPolicy)
def test_the_engine_restarts_nothing_after_a_pause(policy):
    job = request(AppDef("a", [replace(WORKER, retry_policy=policy, retry_delay=2)]))
    assert "restart_policy" not in job.containers[0].kwargs
    assert job.role_rules == {"worker": {"retry_delay": 2}}
    assert "rules:\n  worker:\n    retry_delay: 2\n" in str(job)
    assert "rules:" not in str(request(AppDef("a", [WORKER])))


def test_an_amount_that_a_resource_leaves_open_is_not_limited():
    given = one().kwargs.keys()
    assert given.isdisjoint({"mem_limit", "shm_size", "nano_cpus", "device_requests", "devices"})


def test_options_of_the_containers_reach_the_request_of_each_container():
    kwargs = one(user="1000:100", workdir="/w", privileged=True, init=False, log_max_size="1k").kwargs
    assert (kwargs["user"], kwargs["working_dir"], kwargs["privileged"]) == ("1000:100", "/w", True)
    assert kwargs["init"] is False
    assert kwargs["log_config"]["config"] == {"max-size": "1k", "max-file": "5"}


def test_options_of_a_role_win_over_options_of_the_app():
    own = {
        "ulimits": {"nofile": "64:128", "memlock": -1},
        "shm_size": "8GiB",
        "read_only": False,
        "user": None,
    }
    role = Role("r", "i", entrypoint="true", resource=Resource(1, 0, 512), cfg=own)
    options = {
        "user": 7, "read_only": True, "tmpfs": ["/run"], "cap_add": ["ALL"], "extra_hosts": {"a": "::1"},
    }  # fmt: skip
    config = one(role, **options).body()
    host = config["HostConfig"]
    assert (config["User"], host["ShmSize"], host["Tmpfs"]) == ("7", 8 * 2**30, {"/run": ""})
    assert host["Ulimits"] == [
        {"Name": "nofile", "Soft": 64, "Hard": 128},
        {"Name": "memlock", "Soft": -1, "Hard": -1},
    ]
    assert (host["CapAdd"], host["ExtraHosts"]) == (["ALL"], ["a:::1"])
    assert "ReadonlyRootfs" not in host
    other = one(replace(role, cfg={}), **options).body()["HostConfig"]
    assert (other["ShmSize"], other["ReadonlyRootfs"]) == (512 * 2**20, True)


@pytest.mark.parametrize(("cfg", "shown"), [
    ({"network": "host"}, "and not `network`; it is an option of the whole app"),
    ({"shmsize": "8g"}, "a role may set"),
    ({"shm_size": "0"}, "shm_size must be a size"),
    ({"shm_size": True}, "shm_size must be of type str"),
    ({"ulimits": {"nofile": "1:2:3"}}, "cfg.ulimits.nofile: ulimits must be limits"),
    ({"tmpfs": ["/a", "b"]}, "cfg.tmpfs.1: tmpfs must be absolute paths"),
])  # fmt: skip
def test_an_option_that_a_role_cannot_set_is_refused(cfg, shown):
    with pytest.raises(RejectedAppError) as error:
        one(Role("r", "i", entrypoint="true", cfg=cfg))
    assert shown in str(error.value)


def test_options_of_the_app_reach_the_request_of_the_job():
    job = request(timeout_s=60, grace_s=2, copy_env=["AWS_*"], image_pull="never")
    assert (job.timeout_s, job.grace_s, job.copy_env, job.image_pull) == (60, 2.0, ["AWS_*"], "never")
    assert job.scratch == "train-1-abcde-scratch"


def test_the_entrypoint_of_the_image_is_replaced_on_demand():
    role = Role("r", "i", entrypoint="sh", args=["-c", "true"])
    assert (one(role).command, one(role).kwargs.get("entrypoint")) == (["sh", "-c", "true"], None)
    overridden = one(role, override_entrypoint=True)
    assert (overridden.command, overridden.kwargs["entrypoint"]) == (["-c", "true"], ["sh"])


@pytest.mark.parametrize("network", ["host", "none"])
def test_replicas_without_names_of_their_own_meet_on_localhost(network):
    role = Role("r", "i", entrypoint="x", port_map={"http": 80})
    kwargs = one(role, network=network).kwargs
    assert kwargs["environment"]["LAUNCHER_RANK0_HOST"] == "localhost"
    assert kwargs.keys().isdisjoint({"hostname", "ports"})


def test_ports_are_the_engines_choice_or_fixed_or_not_published():
    role = Role("r", "i", entrypoint="x", port_map={"http": 80})
    assert one(role, ports="fixed").kwargs["ports"] == {"80/tcp": ("127.0.0.1", 80)}
    assert "ports" not in one(role, ports="none").kwargs


def test_a_fixed_port_cannot_be_published_twice():
    with pytest.raises(RejectedAppError, match=r"roles\.worker\.port_map: .* one replica"):
        request(ports="fixed")
    twins = [Role(name, "i", entrypoint="x", port_map={"http": 80}) for name in ("a", "b")]
    with pytest.raises(RejectedAppError, match=r"roles\.b\.port_map\.http: .*role `a` has port 80"):
        request(AppDef("a", twins), ports="fixed")


@pytest.mark.parametrize(("wrong", "found"), [
    ({"image": ""}, r"roles\.worker\.image: .*no image"),
    ({"image": "a b"}, r"roles\.worker\.image: "),
    ({"entrypoint": ""}, r"roles\.worker\.entrypoint: "),
    ({"resource": Resource(1, 0, 4)}, r"roles\.worker\.resource\.memMB: .*6 MiB"),
    ({"resource": Resource(0.001, 0, 64)}, r"roles\.worker\.resource\.cpu: "),
    ({"mounts": [BindMount("data", "/data")]}, r"roles\.worker\.mounts\.0: .*absolute"),
    ({"mounts": [BindMount("/data", "data")]}, r"roles\.worker\.mounts\.0: .*absolute"),
    ({"mounts": [VolumeMount("/data", "/data")]}, r"roles\.worker\.mounts\.0: .*volume"),
    ({"mounts": [VolumeMount("v1", "/launcher/scratch/")]}, r"mounts\.0: .*below /launcher"),
    ({"mounts": [BindMount("/data", "/launcher")]}, r"mounts\.0: .*below /launcher"),
    ({"mounts": [BindMount("/data", "//launcher/x")]}, r"mounts\.0: .*below /launcher"),
    ({"mounts": [BindMount("/data", "/opt/..")]}, r"roles\.worker\.mounts\.0: the root of a container"),
    ({"mounts": [DeviceMount("/dev/a:b", "/dev/a")]}, r"roles\.worker\.mounts\.0: "),
])  # fmt: skip
def test_a_role_that_no_engine_can_run_is_refused_with_the_place(wrong, found):
    with pytest.raises(RejectedAppError, match=found):
        request(AppDef("train", [replace(WORKER, **wrong)]))


@pytest.mark.parametrize(("cfg", "hint"), [
    ({"image_pull": "allways"}, "always"), ({"ports": "fix"}, "fixed"), ({"log_max_size": "big"}, ""),
    ({"log_max_files": 0}, ""), ({"image_repo": "Repo:1"}, ""), ({"workdir": "w"}, ""),
    ({"user": ""}, ""), ({"network": "a b"}, ""), ({"env": {"A=B": "1"}}, ""), ({"timeout_s": 0}, ""),
    ({"grace_s": -1.0}, ""),
])  # fmt: skip
def test_an_option_out_of_range_is_refused_with_its_name(cfg, hint):
    with pytest.raises(InvalidRunConfigException) as error:
        one(**cfg)
    assert error.value.cfg_key == next(iter(cfg))
    assert hint in (error.value.hint or "")


def test_fields_that_docker_treats_differently_are_noted():
    role = replace(WORKER, min_replicas=1, env={"LAUNCHER_RANK0_HOST": "there"})
    text = "\n".join(request(AppDef("a", [role]), network="host").notes)
    assert "LAUNCHER_RESTART is not set" in text
    assert "ports are not published on the network `host`" in text
    assert "all 2 replicas or none" in text
    assert "its LAUNCHER_RANK0_HOST is not used" in text


def test_a_text_of_the_session_or_the_option_is_no_macro():
    job = request(session="x$<app_id>", env={"A": "${app_id}"})
    assert job.handle == "local_docker://x$<app_id>/train-1-abcde"
    assert job.containers[0].kwargs["environment"]["A"] == "${app_id}"
