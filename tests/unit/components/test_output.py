"""Output of the code of users goes to stderr, however it is written; stdout is for the document."""

import os
import subprocess
import sys
import threading

import pytest

from launcher.components.component import stdout_to_stderr


def test_stdout_of_python_of_descriptors_and_of_children_goes_to_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    print("before")
    with stdout_to_stderr():
        print("python")
        os.write(1, b"descriptor\n")
        subprocess.run(["echo", "child"], check=True)
    print("after")
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert sorted(err.split()) == ["child", "descriptor", "python"]


def test_stdout_is_restored_after_an_error_and_when_the_outermost_redirection_ends(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        with stdout_to_stderr():
            with stdout_to_stderr():
                pass
            os.write(1, b"still away\n")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    os.write(1, b"back\n")
    assert capfd.readouterr() == ("back\n", "still away\n")


def test_the_last_of_several_threads_restores_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    first_is_in, first_may_go = threading.Event(), threading.Event()

    def first() -> None:
        with stdout_to_stderr():
            first_is_in.set()
            first_may_go.wait()

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait()
    with stdout_to_stderr():
        first_may_go.set()
        thread.join()
        os.write(1, b"away\n")
    os.write(1, b"back\n")
    assert capfd.readouterr() == ("back\n", "away\n")


@pytest.mark.parametrize("closed", ["1", "2", "1, 2"])
def test_a_process_without_stdout_or_stderr_is_left_as_it_is(closed: str) -> None:
    script = (
        "import os\n"
        f"for fd in ({closed},): os.close(fd)\n"
        "from launcher.components.component import stdout_to_stderr\n"
        "with stdout_to_stderr(): os.system('echo child')\n"
        "def is_open(fd):\n"
        "    try: return bool(os.fstat(fd))\n"
        "    except OSError: return False\n"
        f"assert [is_open(fd) for fd in (1, 2)] == [fd not in ({closed},) for fd in (1, 2)]\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b""
