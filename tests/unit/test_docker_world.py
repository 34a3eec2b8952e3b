"""The tests' own view of the engine: leftovers fail a test, and the proxy refuses writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.engines.docker import Daemon, Refused
from tests.engines.images import SHELL_IMAGE
from tests.engines.own import require_own
from tests.engines.proxy import Proxy, everything
from tests.unit.test_harness import run_tests
from tests.waiting import PATIENCE_S, until

LEAVES_ONE_BEHIND = """
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
def test_it(token):
    body = {"Image": SHELL_IMAGE, "Cmd": ["true"], "Labels": {"launcher.session": token}}
    Daemon().ask("POST", "/containers/create", body, name=f"{token}-left")
"""
LEAVES_A_VOLUME = """
from tests.engines.docker import Daemon
def test_it(token):
    body = {"Name": f"{token}-left", "Labels": {"launcher.session": token, "launcher.app-id": token}}
    Daemon().ask("POST", "/volumes/create", body)
"""
STARTS_AN_ENGINE = """
import signal
from tests.engines.own import OwnEngine
with OwnEngine() as made:
    print(made.folder, *made.pids, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("text", [LEAVES_ONE_BEHIND, LEAVES_A_VOLUME])
def test_a_test_that_leaves_something_on_the_engine_fails_and_it_is_gone(tmp_path, token, text):
    code, out = run_tests(tmp_path, text)
    assert code == 1
    assert "left behind on the engine" in out
    [name] = {word.rstrip(",") for word in out.split() if word.rstrip(",").endswith("-left")}
    assert name not in [thing.name for thing in Daemon().everything()]


def test_the_proxy_passes_reads_and_refuses_the_rest(tmp_path, token):
    with Proxy(tmp_path / "s") as proxy:
        behind = Daemon(proxy.host)
        assert behind.ask("GET", "/info")["ID"] == Daemon().ask("GET", "/info")["ID"]
        with pytest.raises(Refused, match="nothing be written"):
            behind.ask("POST", "/volumes/create", {"Name": token})
        assert proxy.refused == ["POST /volumes/create"]


def test_the_proxy_passes_everything_and_breaks_off_on_command(tmp_path, token):
    with Proxy(tmp_path / "s", everything) as proxy:
        behind = Daemon(proxy.host)
        body = {"Image": SHELL_IMAGE, "Labels": {"launcher.session": token}}
        made = behind.ask("POST", "/containers/create", body)["Id"]
        behind.ask("DELETE", f"/containers/{made}", force="1")
        proxy.break_off()
        assert not behind.answers()


def test_an_engine_of_one_test_ends_with_a_process_that_is_killed():
    require_own()
    with subprocess.Popen([sys.executable, "-c", STARTS_AN_ENGINE], stdout=subprocess.PIPE) as starter:
        folder, *pids = starter.stdout.readline().decode().split()
        starter.kill()
    assert processes.gone(map(int, pids), timeout_s=PATIENCE_S)
    until(lambda: not Path(folder).exists())
