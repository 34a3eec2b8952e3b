"""The request of the local scheduler: a pure function of app and options."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import Scheduler, get_scheduler
from launcher.schedulers.checks import RejectedAppError
from launcher.schedulers.local.popen import PopenRequest, ReplicaParam
from launcher.schedulers.local.request import (
    CWDImageProvider,
    ImageError,
    LocalDirectoryImageProvider,
    bind_request,
    build_request,
    without_gpus,
)
from launcher.specs import AppDef, BindMount, InvalidRunConfigException, Resource, Role, Secret, macros

APPS = "/state/apps"


def request_of(*roles: Role, app_id: str = "a-1", **cfg: Any) -> PopenRequest:
    app = AppDef("app", list(roles))
    images = CWDImageProvider(cfg, "/work")
    request = build_request(app, cfg, scheduler="local_cwd", session="s", apps_dir=APPS, images=images)
    return request if app_id == "$<app_id>" else bind_request(request, app_id)


def role(name: str = "r", **fields: Any) -> Role:
    return Role(**{"name": name, "image": "", "entrypoint": "true", **fields})


def test_a_request_has_a_replica_with_its_own_folder_for_each_replica_of_each_role() -> None:
    request = request_of(role(num_replicas=2, args=["x"]), role("q"))
    assert request.log_dir == "/state/apps/a-1/logs"
    assert request.role_log_dirs == {
        "r": ["/state/apps/a-1/logs/r/0", "/state/apps/a-1/logs/r/1"],
        "q": ["/state/apps/a-1/logs/q/0"],
    }
    (param,) = request.role_params["q"]
    assert param.args == ["true"]
    assert param.cwd == "/work"
    assert (param.stdout, param.stderr, param.combined) == (
        None,
        None,
        "/state/apps/a-1/logs/q/0/combined.log",
    )
    assert request.handle == "local_cwd://s/a-1"


def test_positional_fields_have_the_established_order() -> None:
    assert ReplicaParam(["a"], {}, "o", "e", "c", "w").cwd == "w"
    assert PopenRequest("id", "logs", {"r": []}, {"r": []}).grace_s == 10.0


def test_the_environment_of_replicas_has_job_scratch_and_error_file() -> None:
    (param,) = request_of(role()).role_params["r"]
    assert param.env == {
        "LAUNCHER_JOB_ID": "local_cwd://s/a-1",
        "LAUNCHER_RANK0_HOST": "localhost",
        "LAUNCHER_SCRATCH": "/state/apps/a-1/scratch",
        "PET_LOG_DIR": "/state/apps/a-1/torchelastic/r",
        "TORCHELASTIC_ERROR_FILE": "/state/apps/a-1/logs/r/0/error.json",
        "PATH": "/work",
    }


def test_a_role_may_name_its_own_error_file_but_not_its_job() -> None:
    env = {
        "TORCHELASTIC_ERROR_FILE": "/e",
        "PET_LOG_DIR": "/p",
        "LAUNCHER_JOB_ID": "mine",
        "LAUNCHER_SCRATCH": "/",
    }
    (param,) = request_of(role(env=env)).role_params["r"]
    assert (param.env["TORCHELASTIC_ERROR_FILE"], param.env["PET_LOG_DIR"]) == ("/e", "/p")
    assert param.env["LAUNCHER_JOB_ID"] == "local_cwd://s/a-1"
    assert param.env["LAUNCHER_SCRATCH"] == "/state/apps/a-1/scratch"


@pytest.mark.parametrize(
    ("given", "prepend", "path"),
    [("", False, "/work"), ("/bin:", False, "/bin:/work"), ("/bin", True, "/work:/bin")],
)
def test_the_working_folder_joins_the_path_of_the_role(given: str, prepend: bool, path: str) -> None:
    env = {"PATH": given} if given else {}
    (param,) = request_of(role(env=env), prepend_cwd=prepend).role_params["r"]
    assert param.env["PATH"] == path


def test_the_cwd_option_says_where_replicas_run() -> None:
    assert request_of(role(), cwd="/there").role_params["r"][0].cwd == "/there"
    assert request_of(role(), cwd="below").role_params["r"][0].cwd == "/work/below"


def test_macros_are_filled_in_per_replica() -> None:
    args = [
        macros.app_id, "$<app_id>", macros.replica_id, "$<role>", "$<num_replicas>", macros.img_root, "$HOME",
    ]  # fmt: skip
    request = request_of(role(args=args, env={"ID": macros.replica_id}, num_replicas=2))
    assert request.role_params["r"][1].args == ["true", "a-1", "a-1", "1", "r", "2", "/work", "$HOME"]
    assert request.role_params["r"][1].env["ID"] == "1"


def test_binding_a_symbolic_request_gives_the_request_built_with_the_id() -> None:
    fields: dict[str, Any] = {"args": ["$<app_id>", "$$<app_id>", "$${app_id}"], "env": {"A": "$<app_id>"}}
    symbolic = request_of(role(**fields), app_id="$<app_id>")
    before = deepcopy(symbolic)
    assert bind_request(symbolic, "a-1") == request_of(role(**fields))
    assert bind_request(symbolic, "a-1").role_params["r"][0].args == ["true", "a-1", "$<app_id>", "${app_id}"]
    assert symbolic == before


def test_folders_that_look_like_macros_are_only_folders() -> None:
    app = AppDef("app", [role()])
    images = CWDImageProvider({}, "/w$<app_id>")
    request = bind_request(
        build_request(
            app, {}, scheduler="local_cwd", session="$<role>", apps_dir="/$<app_id>", images=images
        ),
        "a-1",
    )
    assert request.app_dir == "/$<app_id>/a-1"
    assert request.handle == "local_cwd://$<role>/a-1"
    assert request.role_params["r"][0].cwd == "/w$<app_id>"


def test_the_log_dir_option_keeps_logs_by_session_and_app() -> None:
    request = request_of(role(), log_dir="/logs")
    assert request.role_log_dirs == {"r": ["/logs/s/a-1/r/0"]}
    [param] = request.role_params["r"]
    assert (param.stdout, param.stderr, param.combined) == tuple(
        f"/logs/s/a-1/r/0/{name}.log" for name in ("stdout", "stderr", "combined")
    )
    assert request_of(role(), log_dir="logs").log_dir == "/work/logs/s/a-1"


def test_roles_with_odd_names_have_folders_of_their_own() -> None:
    request = request_of(role("a b"), role("a-b"))
    folders = {"a b": ["/state/apps/a-1/logs/a-b/0"], "a-b": ["/state/apps/a-1/logs/a-b-2/0"]}
    assert request.role_log_dirs == folders


@pytest.mark.parametrize("cfg", [{"timeout_s": 0}, {"timeout_s": -1}, {"grace_s": -0.5}])
def test_times_out_of_range_are_refused(cfg: dict[str, Any]) -> None:
    with pytest.raises(InvalidRunConfigException) as error:
        request_of(role(), **cfg)
    assert error.value.cfg_key in cfg


def test_a_request_holds_and_shows_references_to_secrets() -> None:
    request = request_of(role(env={"API_KEY": Secret("env:API_KEY"), "K": "env:API_KEY"}))
    env = request.role_params["r"][0].env
    assert (type(env["API_KEY"]), type(env["K"])) == (Secret, str)
    assert "API_KEY=(secret env:API_KEY)" in str(request)
    stored = request.to_json()["role_params"]["r"][0]["env"]
    assert (stored["API_KEY"], stored["K"]) == ({"secret": "env:API_KEY"}, "env:API_KEY")


def test_the_variable_path_cannot_be_a_secret() -> None:
    with pytest.raises(RejectedAppError, match=r"roles\.r\.env\.PATH: PATH cannot be a secret"):
        request_of(role(env={"PATH": Secret("env:PATH")}))


def test_every_problem_of_an_app_is_reported() -> None:
    with pytest.raises(RejectedAppError) as error:
        request_of(role(entrypoint="", num_replicas=0), role())
    assert "num_replicas" in str(error.value)
    assert "entrypoint" in str(error.value)
    assert "2 roles are named `r`" in str(error.value)


def test_fields_that_cannot_be_enforced_are_noted() -> None:
    asks = role(
        resource=Resource(2, 1, 512),
        mounts=[BindMount("/a", "/b")],
        port_map={"p": 80},
        num_replicas=3,
        min_replicas=1,
    )
    notes = request_of(asks).notes
    assert [word for word in ("memory", "mounts", "ports", "all 3") if any(word in n for n in notes)] == [
        "memory",
        "mounts",
        "ports",
        "all 3",
    ]
    assert request_of(role()).notes == []


def test_a_variable_that_a_role_sets_in_vain_is_noted() -> None:
    [note] = request_of(role(env={"LAUNCHER_RANK0_HOST": "there", "MINE": "1"})).notes
    assert "its LAUNCHER_RANK0_HOST is not used" in note


def gpu_role(name: str, replicas: int, gpus: int, **env: str) -> Role:
    return role(name, num_replicas=replicas, resource=Resource(-1, gpus, -1), env=env)


def visible(request: PopenRequest) -> dict[str, list[object]]:
    return {
        name: [param.env.get("CUDA_VISIBLE_DEVICES") for param in params]
        for name, params in request.role_params.items()
    }


@pytest.mark.parametrize("app_id", ["a-1", macros.app_id])
def test_a_request_leaves_gpus_open_until_the_turn_comes(app_id: str) -> None:
    request = request_of(gpu_role("a", 2, 1), role("b"), app_id=app_id, auto_set_cuda_visible_devices=True)
    assert visible(request) == {"a": ["$<gpus>", "$<gpus>"], "b": [None]}
    assert (request.role_gpus, request.notes) == ({"a": 1}, [])


def test_a_roles_own_choice_of_gpus_wins() -> None:
    request = request_of(gpu_role("a", 2, 1, CUDA_VISIBLE_DEVICES="9"))
    assert (visible(request), request.role_gpus) == ({"a": ["9", "9"]}, {"a": 1})


def test_without_a_turn_each_replica_sees_all_gpus() -> None:
    request = request_of(gpu_role("a", 2, 1), gpu_role("b", 1, 1, CUDA_VISIBLE_DEVICES="9"))
    assert visible(without_gpus(request)) == {"a": [None, None], "b": ["9"]}
    assert visible(request) == {"a": ["$<gpus>", "$<gpus>"], "b": ["9"]}


def test_on_a_system_without_turns_a_note_says_that_each_replica_sees_all_gpus(monkeypatch):
    monkeypatch.setattr("launcher.schedulers.local.request.sys.platform", "darwin")
    request = request_of(gpu_role("a", 2, 1))
    assert visible(request) == {"a": [None, None]}
    assert request.notes == ["2 GPUs are asked for; each replica sees all that this host has"]


def test_the_text_shows_commands_and_hides_values_that_look_secret() -> None:
    text = str(request_of(role(args=["a b"], env={"LR": "0.1", "WANDB_API_KEY": "hunter2"}), timeout_s=60))
    assert "command   true 'a b'" in text
    assert "LR=0.1" in text
    assert "timeout   60 s" in text
    assert "WANDB_API_KEY=(value not shown)" in text
    assert "hunter2" not in text


def test_the_text_shows_equal_replicas_once() -> None:
    assert str(request_of(role(num_replicas=1000))).count("command") == 1
    assert str(request_of(role(num_replicas=3, args=["$<replica_id>"]))).count("command") == 3


def _dir_scheduler() -> Scheduler[Any]:
    return get_scheduler("local_dir", "s")


def test_local_dir_runs_in_the_image(tmp_path: Path) -> None:
    images = LocalDirectoryImageProvider({}, "/work")
    found = images.get_replica_param(str(tmp_path), role(image=str(tmp_path), args=["x"], entrypoint="./run"))
    assert (found.cwd, found.args) == (str(tmp_path), ["./run", "x"])


@pytest.mark.parametrize(
    ("image", "why"),
    [("", "absolute"), ("relative", "absolute"), ("{}/none", "does not exist"), ("{}/file", "not a folder")],
)
def test_local_dir_requires_the_absolute_path_of_a_folder(tmp_path: Path, image: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImageError, match=why):
        _dir_scheduler().submit_dryrun(AppDef("app", [role(image=image.format(tmp_path))]), {})


def test_local_dir_has_no_cwd_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidRunConfigException):
        _dir_scheduler().submit_dryrun(AppDef("app", [role(image=str(tmp_path))]), {"cwd": "/"})


def test_a_missing_working_folder_is_refused_in_the_dry_run() -> None:
    with pytest.raises(ImageError, match="does not exist"):
        get_scheduler("local_cwd", "s").submit_dryrun(AppDef("app", [role()]), {"cwd": "/no/such/folder"})


def test_the_current_folder_is_looked_up_when_it_is_needed(tmp_path, monkeypatch):
    scheduler = get_scheduler("local_cwd", "s")
    monkeypatch.chdir(tmp_path)
    info = scheduler.submit_dryrun(AppDef("app", [role()]), {})
    assert info.request.role_params["r"][0].cwd == os.fspath(tmp_path)


def test_a_bound_of_the_log_is_refused_with_a_folder_of_complete_logs() -> None:
    assert request_of(role(), log_max_mb=5).log_max_mb == 5
    with pytest.raises(RejectedAppError, match=r"cfg.log_max_mb: .*leave one out"):
        request_of(role(), log_max_mb=5, log_dir="logs")
