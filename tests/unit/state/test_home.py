"""LAUNCHER_HOME: made private, used only if it belongs to the user, unchanged where it exists; its token."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import paths
from launcher.errors import StateError
from launcher.paths import make_token, token
from launcher.runner.config import find_configs

FOREIGN = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def refused(folder: str = "local/apps") -> StateError:
    with pytest.raises(StateError, match="cannot keep state in") as caught:
        paths.ensure(os.path.join(paths.home(), folder))
    assert caught.value.hint
    return caught.value


@pytest.fixture(autouse=True)
def common_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_every_folder_that_launcher_makes_is_private(home: Path) -> None:
    paths.ensure(str(home / "local" / "apps"))
    assert [mode(home / name) for name in (".", "local", "local/apps")] == [0o700] * 3
    assert paths.ensure(str(home)) == str(home)


@pytest.mark.parametrize("found", [0o700, 0o755, 0o711])
def test_a_folder_that_exists_keeps_its_mode(home: Path, found: int) -> None:
    home.mkdir()
    home.chmod(found)
    paths.ensure(paths.local())
    assert (mode(home), mode(home / "local")) == (found, 0o700)


def test_a_folder_that_the_system_does_not_make_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", "/proc/launcher")
    with pytest.raises(StateError, match="cannot write /proc/launcher") as caught:
        paths.ensure(paths.locks())
    assert "LAUNCHER_HOME" in str(caught.value.hint)


@pytest.mark.parametrize("given", ["state", "./state", ""])
def test_a_relative_folder_of_xdg_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for name in ("LAUNCHER_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, given if name.startswith("XDG_") else "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state" / "launcher").mkdir(parents=True)
    (tmp_path / "state" / "launcher" / "launcher.toml").touch()
    assert paths.home() == f"{tmp_path}/.local/state/launcher"
    assert paths.runtime() == f"/tmp/launcher-{os.geteuid()}"
    assert find_configs() == []


@pytest.mark.parametrize("found", [0o1777, 0o777, 0o775, 0o722])
def test_a_folder_that_others_can_write_is_refused_and_left_alone(home: Path, found: int) -> None:
    home.mkdir()
    home.chmod(found)
    error = refused()
    assert "other users can write to it" in str(error)
    assert error.hint == f"chmod go-w {home}, or set LAUNCHER_HOME to {home}/launcher"
    assert mode(home) == found
    assert list(home.iterdir()) == []


def test_the_folder_that_the_hint_names_can_be_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    home.chmod(0o1777)
    monkeypatch.setenv("LAUNCHER_HOME", f"{home}/launcher")
    paths.ensure(paths.local())
    assert mode(home / "launcher") == 0o700


@as_root
@pytest.mark.parametrize("which", [".", "local", "local/apps"])
def test_a_folder_of_another_user_is_refused(home: Path, which: str) -> None:
    (home / "local" / "apps").mkdir(parents=True, mode=0o700)
    os.chown(home / which, FOREIGN, FOREIGN)
    assert f"user {FOREIGN} owns it" in str(refused())


@pytest.mark.parametrize("which", ["local", "local/apps", "docker"])
def test_a_symbolic_link_below_the_home_is_refused(home: Path, tmp_path: Path, which: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / which).parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    (home / which).symlink_to(tmp_path / "elsewhere")
    assert f"symbolic link to {tmp_path}/elsewhere" in str(refused(f"{which}/apps"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_home_that_is_a_symbolic_link_is_refused_with_where_it_leads(home: Path, tmp_path: Path) -> None:
    home.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):  # dangling, then a folder
        assert refused().hint == f"set LAUNCHER_HOME to where it leads: {tmp_path}/elsewhere"
        (tmp_path / "elsewhere").mkdir(exist_ok=True)


def test_links_above_the_home_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "state" / "launcher"))
    paths.ensure(paths.local())
    assert mode(tmp_path / "disk" / "launcher" / "local") == 0o700


@pytest.mark.parametrize("which", [".", "local"])
def test_a_file_in_the_place_of_a_folder_is_named(home: Path, which: str) -> None:
    (home / which).parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    (home / which).write_text("")
    with pytest.raises(StateError, match="Not a directory"):
        paths.ensure(paths.local())


@pytest.mark.parametrize(
    ("number", "word"),
    [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max"), (errno.EROFS, "LAUNCHER_HOME")],
)
def test_the_hint_of_a_refused_home_fits_the_error(number: int, word: str) -> None:
    assert word in str(paths.unusable(OSError(number, os.strerror(number)), "x").hint)


def test_a_state_folder_that_no_command_has_changed_has_no_token(home: Path) -> None:
    assert token() == ""
    assert not home.exists()


def test_the_token_stays_and_is_private(home: Path) -> None:
    made = make_token()
    assert len(made) == 10
    assert (make_token(), token()) == (made, made)
    assert stat.S_IMODE(os.stat(paths.home_token()).st_mode) == 0o600
    assert os.listdir(home) == ["token"]


def test_two_state_folders_have_different_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_token()
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    assert make_token() != one


@pytest.mark.parametrize("damage", ["", "\n", "../../x\n", "a b"])
def test_a_damaged_token_is_made_again(damage: str) -> None:
    made = make_token()
    Path(paths.home_token()).write_text(damage)
    assert token() == ""
    assert make_token() not in ("", made)


def test_processes_that_race_for_the_token_get_the_same_one() -> None:
    code = "from launcher.paths import make_token; print(make_token())"
    racing = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    found = {process.communicate(timeout=60)[0].strip() for process in racing}
    assert found == {token()}
