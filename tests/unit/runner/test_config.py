"""Defaults from files: which file wins, what is refused and where, and that a dump can be read back."""

import io
from functools import partial
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.runner import config, get_runner
from launcher.specs import UnknownSchedulerException
from tests.unit.schedulers.plugins import scheduler_plugins


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, whose subfolder is the current directory."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    return folder


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / config.CONFIG_FILE
    path.write_text(text)
    return path


def of_user(tmp_path: Path, text: str) -> Path:
    return write(tmp_path / "u" / "config" / "launcher", text)


def test_options_stay_unchanged_without_a_configuration_file(project: Path) -> None:
    cfg: dict[str, object] = {"grace_s": 1.0}
    config.apply("local_cwd", cfg)
    assert cfg == {"grace_s": 1.0}
    assert config.find_configs() == []


def test_the_call_wins_over_the_project_and_the_project_over_the_user(project: Path, tmp_path: Path) -> None:
    of_user(tmp_path, "[schedulers.local_cwd]\ngrace_s = 1.0\ntimeout_s = 1\nprepend_cwd = true\n")
    write(project, "[schedulers.local_cwd]\ngrace_s = 2.0\ntimeout_s = 2\n")
    cfg: dict[str, object] = {"grace_s": 3.0}
    config.apply("local_cwd", cfg)
    assert cfg == {"grace_s": 3.0, "timeout_s": 2, "prepend_cwd": True}


def test_the_search_ends_at_the_top_of_the_work_tree(project: Path, tmp_path: Path) -> None:
    write(tmp_path, "[schedulers.local_cwd]\ngrace_s = 1.0\n")
    assert config.find_configs() == []


def test_the_environment_names_one_file_in_place_of_all(project, tmp_path, monkeypatch):
    write(project, "[schedulers.local_cwd]\ngrace_s = 2.0\n")
    other = write(tmp_path / "other", '[cli.run]\nscheduler = "local_dir"\n')
    monkeypatch.setenv(config.ENV_CONFIG, str(other))
    assert config.find_configs() == [str(other)]
    assert config.get_config("cli", "run", "scheduler") == "local_dir"
    monkeypatch.setenv(config.ENV_CONFIG, str(tmp_path / "none"))
    with pytest.raises(config.ConfigError, match="no such file"):
        config.find_configs()


def test_sections_are_merged_key_by_key(project: Path, tmp_path: Path) -> None:
    of_user(tmp_path, '[components."dist.ddp"]\nj = "1x1"\ncpu = 4\n[components.mine]\nx = "y"\n')
    write(project, '[components."dist.ddp"]\nj = "2x2"\n')
    assert config.load_sections("components") == {"dist.ddp": {"j": "2x2", "cpu": 4}, "mine": {"x": "y"}}
    assert config.get_configs("components", "none") == {}


def test_sections_of_components_go_into_a_runner_under_the_name_that_torchx_uses(project: Path) -> None:
    write(project, '[components."utils.echo"]\nmsg = "from the file"\nnum_replicas = 3\n')
    defaults = config.load_sections(prefix="component")
    assert config.get_configs("component", "utils.echo") == defaults["utils.echo"]
    assert config.get_config("component", "utils.echo", "num_replicas") == 3
    with get_runner(component_defaults=defaults) as runner:
        info = runner.dryrun_component("utils.echo", [], "local_cwd")
    (role,) = info._app.roles
    assert (role.args, role.num_replicas) == (["from the file"], 3)


def test_an_unknown_prefix_is_refused_with_the_nearest(project: Path) -> None:
    with pytest.raises(config.ConfigError, match="no tables `compnents`") as error:
        config.load_sections("compnents")
    assert error.value.hint == "did you mean `components`?"


def test_component_defaults_are_texts_as_on_the_command_line_in_lists_and_mappings_too(project: Path) -> None:
    values = 'debug = true\nmounts = ["a", "b"]\nenv = {A = "b,c", C = 1}\ncpu = 3\n'
    write(project, f'[components."dist.ddp"]\n{values}')
    texts = {"debug": "true", "mounts": ["a", "b"], "env": {"A": "b,c", "C": "1"}, "cpu": "3"}
    assert config.component_defaults() == {"dist.ddp": texts}


def test_defaults_of_a_component_reach_it_word_by_word_and_value_by_value(project: Path) -> None:
    write(project, '[components."utils.sh"]\nargs = ["echo", "a b"]\nenv = {A = "x,B=y", C = "1=2"}\n')
    with get_runner(component_defaults=config.component_defaults()) as runner:
        (role,) = runner.dryrun_component("utils.sh", [], "local_cwd")._app.roles
    assert (role.args, role.env) == (["-c", "echo 'a b'"], {"A": "x,B=y", "C": "1=2"})


LOCAL, ECHO = "[schedulers.local_cwd]", "utils.echo"
WRONG = {
    config.component_defaults: [
        (f'[components."{ECHO}"]\nmesg = "x"\n', ":2:1:", f"`{ECHO}` has no argument `mesg`", "`msg`"),
        (f'components = {{"{ECHO}" = {{mesg = "x"}}}}\n', ":1:1:", f"`{ECHO}` has no argument `mesg`",
            "`msg`"),
        ('\n[components."utils.ecko"]\nmsg = "x"\n', ":2:1:", "no component `utils.ecko`", f"`{ECHO}`"),
        (f'\n[component."{ECHO}"]\nmsg = "x"\n', ":2:1:", "`component` is not a field", "`components`"),
        ("[components]\nn = 1\n", ":2:1:", "`components.n` must be a table", "[components.n]"),
        ("[schedulers.local_dokcer]\n", ":1:1:", "no scheduler `local_dokcer`", "`local_docker`"),
    ],
    partial(config.apply, "local_cwd", {}): [
        (f"{LOCAL}\n\ngrace = 1.0\n", ":3:1:", "has no option `grace`", "`grace_s`"),
        ('x-a = 1\n[schedulers."local_cwd"]\n  grace_s = "1"\n', ":3:3:", "`grace_s` must be float", ""),
        ("[schedulers]\nlocal_cwd = 1\n", ":2:1:", "must be a table", ""),
        ("schedulers = 1\n", ":1:1:", "must hold tables", ""),
        ("[schedulers.local_cwd\n", "line 1", "Expected", ""),
    ],
    partial(config.get_config, "cli", "run", "scheduler"): [
        ('[cli.rum]\nscheduler = "local_dir"\n', ":1:1:", "`cli.rum` is no table", "`run`"),
        ('[cli.run]\nsheduler = "local_dir"\n', ":2:1:", "`cli.run` has no `sheduler`", "`scheduler`"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("read", "row"), [(read, row) for read, rows in WRONG.items() for row in rows])
def test_problems_of_a_file_are_reported_with_their_place(project, read, row):
    text, where, what, hint = row
    path = write(project, text)
    with pytest.raises(config.ConfigError) as error:
        read()
    assert all(part in str(error.value) for part in (str(path), where, what))
    assert hint in (error.value.hint or "")


def test_a_dump_read_back_changes_nothing(project: Path) -> None:
    written = io.StringIO()
    config.dump(written)
    for name in ("local_cwd", "local_dir"):
        assert f"[schedulers.{name}]" in written.getvalue()
        cfg: dict[str, object] = {}
        config.load(name, io.StringIO(written.getvalue()), cfg)
        assert cfg == {}


def test_a_dump_with_its_comments_taken_off_gives_the_defaults(project: Path) -> None:
    written = io.StringIO()
    config.dump(written, ["local_cwd"])
    lines = [line.removeprefix("# ") for line in written.getvalue().splitlines() if " =   #" not in line]
    cfg: dict[str, object] = {}
    config.load("local_cwd", io.StringIO("\n".join(lines)), cfg)
    assert cfg == {"prepend_cwd": False, "auto_set_cuda_visible_devices": False, "grace_s": 10.0}


def test_an_unknown_scheduler_leaves_a_dump_unwritten() -> None:
    written = io.StringIO()
    with pytest.raises(UnknownSchedulerException) as error:
        config.dump(written, ["local_cwd", "no-such"])
    assert isinstance(error.value, ValueError), "as users of TorchX catch it"
    assert written.getvalue() == ""


def test_a_broken_scheduler_is_a_comment_in_a_dump_of_all(tmp_path, monkeypatch):
    scheduler_plugins(tmp_path, monkeypatch, broken="no_such_module:create")
    written = io.StringIO()
    config.dump(written)
    assert "# the scheduler `broken` cannot be loaded" in written.getvalue()
    assert "[schedulers.local_dir]" in written.getvalue()
    config.load("local_cwd", io.StringIO(written.getvalue()), {})
    with pytest.raises(SchedulerError, match="broken"):
        config.dump(written, ["broken"])
