"""Contract: a submission runs the app as declared, and a dry run changes nothing."""

from copy import deepcopy
from pathlib import Path

import pytest

from launcher.errors import LauncherError, StartError
from launcher.specs import AppState, InvalidRunConfigException, Role, macros
from tests.contract.conftest import Case, states


def test_dry_runs_are_equal_and_change_neither_the_app_nor_the_disk(case: Case, launcher_home: Path) -> None:
    app = case.app("echo $<replica_id>", replicas=3, env={"A": "b"})
    before = deepcopy(app)
    first, second = (case.scheduler.submit_dryrun(app, {}) for _ in range(2))
    assert first.request == second.request
    assert repr(first) == repr(second)
    assert app == before
    assert not launcher_home.exists()


def test_one_dry_run_is_scheduled_twice_under_fresh_ids(case: Case) -> None:
    info = case.scheduler.submit_dryrun(case.app(f"echo {macros.app_id}"), {})
    ids = [case.scheduler.schedule(info) for _ in range(2)]
    assert len(set(ids)) == 2
    for app_id in ids:
        case.end(app_id)
        assert case.lines(app_id) == [f"{app_id}\n"]


def test_every_role_may_change_the_request_before_it_is_sent(case: Case) -> None:
    seen = []

    class Noting(Role):
        def pre_proc(self, scheduler, dryrun_info):
            seen.append((self.name, scheduler))
            return dryrun_info

    app = case.app()
    app.roles = [Noting(**vars(role)) for role in (*app.roles, case.role("second", "true"))]
    case.scheduler.submit_dryrun(app, {})
    assert seen == [("r", case.name), ("second", case.name)]


def test_an_unknown_option_is_refused_with_the_nearest_name(case: Case) -> None:
    known = next(name for name, _ in case.scheduler.run_opts())
    with pytest.raises(InvalidRunConfigException) as error:
        case.scheduler.submit(case.app(), {f"{known}x": "1"})
    assert f"`{known}`" in f"{error.value} {error.value.hint}"


def test_an_option_of_the_wrong_type_is_refused(case: Case) -> None:
    name = next(name for name, opt in case.scheduler.run_opts() if opt.opt_type is str)
    with pytest.raises(InvalidRunConfigException) as error:
        case.scheduler.submit_dryrun(case.app(), {name: 1})
    assert error.value.cfg_key == name


@pytest.mark.everywhere
def test_replicas_run_in_the_workspace_or_it_is_refused(case: Case, tmp_path: Path) -> None:
    if case.name == "local_docker":
        pytest.skip("tests/scenarios/docker build images")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "data.txt").write_text("of the workspace\n")
    if not (case.scheduler.builds_workspaces or case.scheduler.workspace_option):
        with pytest.raises(LauncherError, match="workspace"):
            case.scheduler.submit(case.app(), {}, workspace=str(folder))
        return
    app_id = case.scheduler.submit(case.app("cat data.txt"), {}, workspace=str(folder))
    case.end(app_id)
    assert case.lines(app_id) == ["of the workspace\n"]


def test_replicas_know_themselves_their_job_and_where_rank_0_is(case: Case) -> None:
    says = (
        f"echo {macros.replica_id} $<role> $<num_replicas> $LAUNCHER_JOB_ID"
        f"; test -n \"$${{{macros.rank0_env}}}\" && echo yes; echo '$$<app_id>' '$${{app_id}}' '$HOME' '$$'"
    )
    found = case.run(case.app(says, replicas=3))
    assert found.state is AppState.SUCCEEDED
    assert states(found) == ["r/0 SUCCEEDED 0", "r/1 SUCCEEDED 0", "r/2 SUCCEEDED 0"]
    handle = f"{case.name}://{case.session}/{found.app_id}"
    for k in range(3):
        assert case.lines(found.app_id, k=k) == [
            f"{k} r 3 {handle}\n", "yes\n", "$<app_id> ${app_id} $HOME $$\n",
        ]  # fmt: skip


@pytest.mark.everywhere
def test_arguments_and_environment_arrive_unchanged(case: Case) -> None:
    odd = "a  b\t'\"\\\n*ü 漢 %s {x}"
    role = Role("r", case.image, entrypoint="printenv", args=["ODD"], env={"ODD": odd, "EMPTY": ""})
    app = case.app()
    app.roles = [role]
    app_id = case.start(app)
    case.end(app_id)
    assert "".join(case.lines(app_id)) == f"{odd}\n"


def test_a_replica_killed_by_a_signal_has_failed_with_the_exit_code_of_a_shell(case: Case) -> None:
    assert case.run(case.app("kill -9 $$")).exit_code == 137


def test_a_failed_replica_fails_the_app_and_stops_its_peers_at_once(case: Case, launcher_home: Path) -> None:
    app = case.app("exec sleep 1000", replicas=2)
    app.roles.append(case.role("bad", "exit 7"))
    found = case.run(app)
    assert (found.state, found.exit_code) == (AppState.FAILED, 7)
    assert "bad/0" in found.msg
    assert "bad/0 FAILED 7" in states(found)
    assert case.left_of(found.app_id, launcher_home) == []


@pytest.mark.slow
def test_an_app_over_its_time_limit_has_failed_and_leaves_no_process(case, launcher_home):
    found = case.run(case.app("exec sleep 1000", replicas=2), timeout_s=1)
    assert found.state is AppState.FAILED
    assert found.msg == "timed out after 1 s"
    assert [text.rsplit(" ", 1)[0] for text in states(found)] == ["r/0 CANCELLED", "r/1 CANCELLED"]
    assert case.left_of(found.app_id, launcher_home) == []


def test_a_missing_executable_removes_the_whole_app(case: Case, launcher_home: Path) -> None:
    if not case.looks_ahead:
        pytest.skip(f"{case.name} sees on a node which commands there are")
    app = case.app("exec sleep 1000", replicas=2)
    app.roles.append(Role("bad", case.image, entrypoint="no-such-command", args=["--x", "a b"]))
    with pytest.raises(StartError) as error:
        case.start(app)
    assert "bad/0" in str(error.value)
    assert "no-such-command --x 'a b'" in str(error.value)
    assert case.listed() == []


def test_an_executable_that_is_missing_on_a_node_fails_the_app(case: Case, launcher_home: Path) -> None:
    if case.looks_ahead:
        pytest.skip(f"{case.name} sees before which commands there are")
    app = case.app("exec sleep 1000", replicas=2)
    app.roles.append(Role("bad", case.image, entrypoint="no-such-command", args=["--x", "a b"]))
    found = case.run(app)
    assert (found.state, found.exit_code) == (AppState.FAILED, 127)
    assert "bad/0" in found.msg
    assert "no-such-command" in found.msg
    assert case.left_of(found.app_id, launcher_home) == []


@pytest.mark.parametrize("replicas", [0, -1])
def test_a_dry_run_refuses_an_invalid_app(case: Case, replicas: int) -> None:
    with pytest.raises(LauncherError, match="num_replicas"):
        case.scheduler.submit_dryrun(case.app(replicas=replicas), {})
