"""The request of slurm: a pure function of app and options."""

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.slurm.options import options
from launcher.schedulers.slurm.request import array_script, bind_request, build_request
from launcher.specs import AppDef, InvalidRunConfigException, Probe, Resource, RetryPolicy, Role, Secret
from tests.unit.slurm.requests import request_of, role, sbatch_lines

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"

SERVER = role("server", service=True, ready=Probe(port=80))
CLIENT = role("client", num_replicas=3, depends_on={"server": "ready"})


def the_one(request: Any, name: str = "r", k: int = 0) -> dict[str, Any]:
    [found] = [each for each in request.app["roles"] if each["name"] == name]
    replica: dict[str, Any] = found["replicas"][k]
    return replica


def srun(request: Any, name: str = "r") -> list[str]:
    [found] = [each["srun"] for each in request.app["roles"] if each["name"] == name]
    return list(found)


# Golden texts: what a plan shows


APPS: dict[str, tuple[AppDef, dict[str, Any]]] = {
    "plain": (AppDef("hello", [role("main", entrypoint="echo", args=["hello"])]), {}),
    "ddp": (
        AppDef(
            "train",
            [
                role(
                    "trainer",
                    entrypoint="python",
                    args=["train.py", "--node", "$<replica_id>", "--master", "$<rank0_host>"],
                    env={"WANDB_API_KEY": Secret("env:WANDB_API_KEY"), "OMP_NUM_THREADS": "8"},
                    num_replicas=2,
                    max_retries=2,
                    resource=Resource(16, 4, 131072),
                )
            ],
        ),
        {
            "host": "login1",
            "partition": "gpu",
            "account": "lab",
            "qos": "long",
            "constraint": "a100",
            "nodes": 2,
            "ntasks_per_node": 1,
            "comment": "first try of Ada's",
            "timeout_s": 86400,
            "setup": ["module load cuda/12.4", "source ~/venv/bin/activate"],
            "sbatch": {"reservation": "course 7", "exclusive": ""},
            "on_preempted": "requeue",
        },
    ),
    "roles": (
        AppDef(
            "service",
            [
                role(
                    "server",
                    entrypoint="python",
                    args=["server.py", "--token", "abc"],
                    service=True,
                    ready=Probe(port=8000),
                    resource=Resource(2, 0, 4096),
                ),
                role(
                    "client",
                    entrypoint="python",
                    args=["client.py", "http://$<role.server.host>:8000", "$<output_dir>/answer"],
                    num_replicas=4,
                    depends_on={"server": "ready"},
                    retry_policy=RetryPolicy.REPLICA,
                    max_retries=1,
                    retry_delay=2,
                ),
            ],
        ),
        {"job_dir": "/scratch/ada/jobs", "time": "1h30m", "workdir": "/home/ada/service", "nodes": 2},
    ),
}


@pytest.mark.parametrize("name", APPS)
def test_a_plan_shows_the_golden_text(name):
    """With GOLDEN=write in the environment the files are made anew, to be read before they are kept."""
    app, cfg = APPS[name]
    text = str(build_request(app, options().resolve(cfg), session="docs"))
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def test_an_array_has_the_golden_script():
    """GOLDEN=write in the environment makes the files anew, as for a plan."""
    app, cfg = APPS["ddp"]
    request = build_request(app, options().resolve(cfg), session="docs")
    text = array_script(request, "q7", "program.zip")
    file = GOLDEN / "array.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


# sbatch


def sized(cpu: float = -1, gpu: float = -1, memory: float = -1, **fields: Any) -> Role:
    return role(resource=Resource(cpu, gpu, memory), **fields)


@pytest.mark.parametrize(("roles", "cfg", "lines"), [
    pytest.param(
        [role("a", num_replicas=2, resource=Resource(1.5, 1, 1000)),
            role("b", num_replicas=3, resource=Resource(3, 1, 1000))],
        {},
        "ntasks=5 cpus-per-task=3 mem-per-cpu=342M gpus-per-task=1",
        id="all roles are counted, and each replica gets the largest share",
    ),
    pytest.param([sized(memory=2048)], {}, "mem-per-cpu=2048M", id="memory without cores is for one core"),
    *(
        pytest.param([sized(1, 0, asked)], {}, f"mem-per-cpu={made}M", id=f"{asked} MiB and room for ours")
        for asked, made in [(1, 26), (32, 57), (999, 1024), (1010, 1024), (1024, 1024)]
    ),
    # 10 s of grace and two minutes more
    ([role()], {"timeout_s": 3600}, "time=01:03:00"),
    ([role()], {"timeout_s": 30, "grace_s": 0.0}, "time=00:03:00"),
    ([role()], {"timeout_s": 3600, "time": "02:00:00"}, "time=02:00:00"),
    ([role()], {"time": "2h"}, "time=02:00:00"),
    ([role()], {"time": "1-12"}, "time=1-12:00:00"),
    ([role()], {"time": "INFINITE"}, "time=UNLIMITED"),
])  # fmt: skip
def test_the_script_requests_the_shares_and_the_time_of_the_app(roles, cfg, lines):
    assert set(lines.split()) <= set(sbatch_lines(request_of(*roles, **cfg)))


def test_nomem_requests_no_memory():
    assert not [line for line in sbatch_lines(request_of(sized(1, 0, 100), nomem=True)) if line[:3] == "mem"]


def test_the_kind_of_gpus_is_requested_for_the_job_and_its_steps():
    request = request_of(role(resource=Resource(1, 2, 100, capabilities={"gpu_type": "a100"})))
    assert "gpus-per-task=a100:2" in sbatch_lines(request)
    assert {"--gpus-per-task=a100:2", "--exact"} <= {*srun(request)}
    assert request.notes == request_of(role(resource=Resource(1, 2, 100))).notes


@pytest.mark.parametrize("capabilities", [{}, {"gpu_type": "v100"}])
def test_gres_takes_the_place_of_gpus_per_task(capabilities):
    resource = Resource(1, 2, 100, capabilities=capabilities)
    request = request_of(role(resource=resource), gres="gpu:a100:2")
    assert "gres=gpu:a100:2" in sbatch_lines(request)
    assert not [line for line in [*sbatch_lines(request), *srun(request)] if "gpus-per-task" in line]


# srun


def test_steps_with_gpus_do_not_overlap_and_slurm_places_them_where_gpus_are_left():
    words = srun(request_of(sized(1, 2, 100, name="Trainer 1", num_replicas=2), nodes=2), "Trainer 1")
    assert {"--job-name=Trainer-1", "--ntasks=2", "--exact", "--gpus-per-task=2"} <= set(words)
    assert not [word for word in words if word.startswith(("--overlap", "--nodes", "--relative"))]


@pytest.mark.parametrize(("counts", "cfg", "places"), [
    ((1, 1), {"nodes": 2}, [(1, 0), (1, 1)]), ((1, 3), {"nodes": 2}, [(1, 0), (2, 0)]),
    ((2, 2), {"nodes": 2}, [(1, 0), (1, 1)]), ((4,), {"nodes": 3}, [(3, 0)]),
    ((1, 4), {"nodes": 3, "ntasks_per_node": 2}, [(1, 0), (3, 0)]),
    ((3, 1, 1), {"nodes": 2}, [(1, 0), (1, 1), (1, 1)]),
])  # fmt: skip
def test_roles_follow_each_other_over_the_nodes(counts, cfg, places):
    roles = [role(f"r{k}", num_replicas=count) for k, count in enumerate(counts)]
    request = request_of(*roles, **cfg)
    for k, (nodes, first) in enumerate(places):
        assert {f"--nodes={nodes}", f"--relative={first}"} <= set(srun(request, f"r{k}"))


# app.json


def test_the_request_is_plain_data_without_secrets():
    request = request_of(role(env={"TOKEN": Secret("env:MY_TOKEN"), "A": "env:MY_TOKEN"}))
    assert json.loads(json.dumps(request.app)) == request.app
    assert "TOKEN" not in the_one(request)["env"]
    assert the_one(request)["env"]["A"] == "env:MY_TOKEN"
    assert request.secrets == {"r": {"TOKEN": Secret("env:MY_TOKEN")}}
    assert "(secret env:MY_TOKEN)" in str(request)


def test_the_request_holds_the_rules_that_the_conductor_follows():
    app = request_of(SERVER, CLIENT, timeout_s=60, grace_s=2.0, workdir="/w", on_preempted="requeue").app
    assert (app["app_id"], app["handle"], app["session"]) == ("a-1-x", "slurm://s/a-1-x", "s")
    assert (app["timeout_s"], app["grace_s"], app["cwd"], app["requeue"]) == (60, 2.0, "/w", True)
    assert app["order"] == {
        "server": {"service": True, "ready": {"port": 80}},
        "client": {"depends_on": {"server": "ready"}},
    }
    assert app["hosts"] == {"server": "server", "client": "client"}
    assert [(each["name"], each["retries"], each["policy"]) for each in app["roles"]] == [
        ("server", 0, "APPLICATION"),
        ("client", 0, "APPLICATION"),
    ]


def test_the_macros_of_a_replica_are_filled_in():
    args = ["$<app_id>", "$<role>-$<replica_id>/$<num_replicas>", "$<img_root>", "${rank0_env}", "$$<app_id>"]
    request = request_of(role(args=args, num_replicas=2))
    assert the_one(request, k=1)["argv"] == [
        "true", "a-1-x", "r-1/2", "\x01dir\x01/workspace", "LAUNCHER_RANK0_HOST", "$<app_id>",
    ]  # fmt: skip
    assert the_one(request_of(role(args=["$<img_root>"]), workdir="/w"))["argv"][1] == "/w"


def test_hosts_are_marks_that_nodes_replace():
    client = role("client", args=["$<role.server.host>:80", "$<rank0_host>"])
    assert the_one(request_of(SERVER, client), "client")["argv"][1:] == [
        "\x01host:server\x01:80",
        "\x01host:server\x01",
    ]


def test_the_environment_of_replicas_has_job_scratch_error_file_and_hosts():
    env = the_one(request_of(SERVER, CLIENT), "client", 2)["env"]
    assert env == {
        "LAUNCHER_JOB_ID": "slurm://s/a-1-x",
        "LAUNCHER_SCRATCH": "\x01dir\x01/scratch",
        "LAUNCHER_RANK0_HOST": "\x01host:server\x01",
        "LAUNCHER_HOST_SERVER": "\x01host:server\x01",
        "PET_LOG_DIR": "\x01dir\x01/scratch/.torchelastic/client-2",
        "TORCHELASTIC_ERROR_FILE": "\x01dir\x01/replicas/client/2.error",
    }


def test_no_replica_waits_for_the_host_of_a_role_that_may_start_later():
    early = role("early")
    late = role("late", service=True, ready=Probe(port=80), depends_on={"early": "succeeded"})
    request = request_of(late, early)  # the first role starts last
    assert not {"LAUNCHER_RANK0_HOST", "LAUNCHER_HOST_LATE"} & the_one(request, "early")["env"].keys()
    assert the_one(request, "late")["env"]["LAUNCHER_HOST_EARLY"] == "\x01host:early\x01"


def test_the_variables_of_the_job_win_over_the_variables_of_a_role():
    env = the_one(request_of(role(env={"LAUNCHER_SCRATCH": "x", "PET_LOG_DIR": "/own"})))["env"]
    assert env["LAUNCHER_SCRATCH"] == "\x01dir\x01/scratch"
    assert env["PET_LOG_DIR"] == "/own"


# Binding


def test_a_request_is_bound_more_than_once_and_stays_as_it_was():
    app = AppDef("app", [role(args=["$<app_id>", "$<output_dir>/x", "$<needs.prepare.output_dir>"])])
    request = build_request(app, options().resolve({}), session="s")
    before = deepcopy(request.__dict__)
    outputs = {"output_dir": "/o", "needs.prepare.output_dir": "/p"}
    own = {"LAUNCHER_ATTEMPT": "1", "LAUNCHER_NEEDS": "[${app_id}]"}
    first = bind_request(request, "a-1-x", outputs, own)
    second = bind_request(request, "a-2-y")
    assert request.__dict__ == before
    assert the_one(first)["argv"] == ["true", "a-1-x", "/o/x", "/p"]
    assert the_one(first)["env"]["LAUNCHER_OUTPUT_DIR"] == "/o"
    assert the_one(first)["env"]["LAUNCHER_ATTEMPT"] == "1"
    assert the_one(first)["env"]["LAUNCHER_NEEDS"] == "[${app_id}]"
    assert (second.app_id, second.app["handle"]) == ("a-2-y", "slurm://s/a-2-y")
    assert "job-name=a-2-y" in sbatch_lines(second)


@pytest.mark.parametrize("session", ["$<app_id>", "${app_id}"])
def test_text_of_a_session_is_no_macro(session):
    app = AppDef("app", [role(args=["x"])])
    request = bind_request(build_request(app, options().resolve({}), session=session), "a-1-x")
    assert request.app["handle"] == f"slurm://{session}/a-1-x"
    assert the_one(request)["env"]["LAUNCHER_JOB_ID"] == f"slurm://{session}/a-1-x"


def test_options_out_of_range_are_refused_also_in_a_resolved_cfg():
    with pytest.raises(InvalidRunConfigException):
        build_request(AppDef("app", [role()]), {"host": "-x"}, session="s")


# The text for users


def test_no_value_that_looks_like_a_secret_is_shown():
    request = request_of(
        Role("r", "", entrypoint="run", args=["--token", "s3cret"], env={"API_KEY": "s3cret"}),
        setup=["export HF_TOKEN=s3cret"],
    )
    assert "s3cret" not in str(request)
    assert "export HF_TOKEN=s3cret" in request.script  # it runs


def test_replicas_that_are_equal_are_shown_once():
    text = str(request_of(role(num_replicas=3, env={"A": "$<app_id>"}, args=["--lr", "1"])))
    assert text.count("--lr") == 2  # in the script, and once for all replicas
