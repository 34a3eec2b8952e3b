"""The programs that our components run: real processes, files and servers."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


def run(module, *words):
    return subprocess.run(
        [sys.executable, "-m", f"launcher.apps.{module}", *words], capture_output=True, text=True, check=False
    )


def test_copy_takes_a_file_to_a_new_folder_or_into_a_folder_under_its_name(tmp_path):
    (tmp_path / "a").write_text("x")
    for dst in (f"file://{tmp_path}/b/c", str(tmp_path / "b")):
        done = run("utils.copy_main", "--src", str(tmp_path / "a"), "--dst", dst)
        assert done.returncode == 0, done.stderr
    assert [(tmp_path / "b" / name).read_text() for name in ("a", "c")] == ["x", "x"]


@pytest.mark.parametrize("src", ["nowhere", "s3://bucket/key"])
def test_copy_names_a_source_that_it_cannot_copy_and_leaves_nothing(tmp_path, src):
    done = run("utils.copy_main", "--src", src, "--dst", str(tmp_path / "b"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot copy {src} to ")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name not in ("u", "l")] == []


def test_booth_prints_and_records_its_value(tmp_path):
    done = run("utils.booth_main", "--x1=1", "--x2=3", "--trial_idx=4", "--tracker_base", str(tmp_path / "t"))
    assert (done.returncode, done.stdout) == (0, "booth(1.0, 3.0) = 0.0\n")
    assert json.loads((tmp_path / "t" / "4").read_text()) == {"booth_eval": 0.0}


def test_a_monitored_program_ends_with_its_own_code_or_is_stopped_when_its_time_is_up():
    assert run("utils.process_monitor", "--timeout=60", "--", "sh", "-c", "exit 3").returncode == 3
    assert run("utils.process_monitor", "--timeout=0.1", "--", "sleep", "1000").returncode == 0


@pytest.mark.slow
def test_a_monitored_program_is_stopped_by_a_file(tmp_path):
    words = ["--timeout=60", "--exit_on_file", str(tmp_path / "x"), "--", "sh", "-c"]
    assert run("utils.process_monitor", *words, f"touch {tmp_path}/x; exec sleep 1000").returncode == 0


@pytest.fixture
def management():
    """A management API that downloads each registered model: (address, requests)."""
    from urllib.parse import parse_qs, urlsplit
    from urllib.request import urlopen

    seen = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self):
            query = parse_qs(urlsplit(self.path).query)
            seen.append((query, urlopen(query["url"][0]).read()))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"registered")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_a_model_is_registered_and_offered_for_the_given_time(tmp_path, management):
    address, seen = management
    (tmp_path / "m.mar").write_bytes(b"model")
    where = ["--model_path", str(tmp_path / "m.mar"), "--management_api", address, "--host", "127.0.0.1"]
    done = run("serve.serve", *where, "--port", "28222", "--initial_workers", "2")
    assert done.returncode == 0, done.stderr
    [(query, body)] = seen
    assert (query["initial_workers"], body) == (["2"], b"model")
    assert "registered" in done.stdout
