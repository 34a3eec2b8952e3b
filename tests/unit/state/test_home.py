"""The identity of a state folder: one token, whichever process makes it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import paths
from launcher.paths import make_token, token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


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
