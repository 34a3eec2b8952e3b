"""The surroundings of a replica: environment, directory, descriptors, signals, limits."""

import os
import signal
import sys

from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh


def test_the_environment_of_a_role_overrides_the_inherited_environment(app: Driven) -> None:
    inherited = {"PATH": os.environ["PATH"], "A": "inherited", "B": "inherited"}
    app.run(app.role("main", sh('echo "$A $B $C"'), env={"B": "own", "C": "own"}), env=inherited)
    assert app.log() == "inherited own own\n"


def test_the_inherited_path_comes_behind_the_path_of_the_role(app: Driven) -> None:
    role = app.role("main", ["/bin/sh", "-c", "echo $PATH"], env={"PATH": "/mine"})
    app.run(role, env={"PATH": "/bin:/usr/bin"})
    assert app.log() == "/mine:/bin:/usr/bin\n"


def test_executables_are_searched_in_the_path_of_the_role_relative_to_its_directory(app, tmp_path):
    tool = tmp_path / "work" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho found by $(basename $PWD)\n")
    tool.chmod(0o755)
    app.run(app.role("main", ["tool"], ["bin/tool"], env={"PATH": "bin"}, cwd=str(tmp_path / "work")))
    assert app.log("main", 0) == app.log("main", 1) == "found by work\n"


def test_text_of_any_kind_arrives_unchanged(app: Driven) -> None:
    odd = os.fsdecode(b"gr\xc3\xbc\xc3\x9fe \xf0\x9f\x9a\x80 \xff")
    app.run(app.role("main", ["printenv", "ODD"], ["printf", "%s\n", odd], env={"ODD": odd}))
    for k in (0, 1):
        assert (app.logs / "main" / str(k) / "combined.log").read_bytes() == os.fsencode(odd) + b"\n"


def test_a_replica_holds_no_descriptor_but_its_own_three(app: Driven) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    app.run(app.role("main", sh("ls -l /proc/self/fd | sed -n 's/.*-> //p'")))
    os.close(read)
    os.close(write)
    own = [line for line in app.log().splitlines() if not line.startswith("/proc/")]
    assert own[0] == "/dev/null"
    assert all(line.startswith("pipe:") for line in own[1:])
    assert len(own) <= 3


def test_a_replica_leads_its_own_session_with_default_signals(app: Driven) -> None:
    script = (
        "import os, signal\n"
        "print(os.getsid(0) == os.getpgid(0) == os.getpid())\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0])\n"
    )
    app.run(app.role("main", [sys.executable, "-I", "-S", "-c", script]))
    leads, blocked, ignored = app.log().splitlines()
    assert (leads, blocked) == ("True", "set()")
    by_python = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert int(ignored, 16) & ((1 << 31) - 1) == by_python  # above are those of the C library itself


def test_a_replica_has_the_limit_of_open_files_that_the_user_has(supervise: Supervise) -> None:
    app = supervise(files=256)
    app.run(app.role("main", sh("ulimit -Sn")))
    assert app.log() == "256\n"
