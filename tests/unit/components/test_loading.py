"""Component files are loaded and called with the modules beside them, and leave nothing behind.

Output of the code of users goes to stderr, however it is written; stdout is for the document.
"""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.components import ComponentNotFoundException, ComponentValidationException, get_component
from launcher.components.call import component_args_from_str
from launcher.components.component import ComponentFailedException, stdout_to_stderr
from launcher.components.signature import ComponentSignatureException
from launcher.errors import LauncherError
from launcher.specs import AppDef

HEAD = "from launcher.specs import AppDef, Role\n"


def component(folder: Path, text: str, name: str = "c.py:f"):
    folder.mkdir(exist_ok=True)
    (folder / "c.py").write_text(HEAD + text)
    return get_component(name, folder=str(folder))


def app(found, *words: str) -> AppDef:
    return found.build(component_args_from_str(found.fn, words))


LATE = "import common\ndef f() -> AppDef:\n    import later\n    return AppDef(common.NAME + later.NAME)\n"


def test_a_component_file_imports_modules_beside_it_while_loaded_and_while_called(tmp_path: Path) -> None:
    path = list(sys.path)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "common.py").write_text(f"NAME = '{folder.name}'\n")
        (folder / "later.py").write_text("import common\nNAME = '-later-' + common.NAME\n")
    found = [component(tmp_path / name, LATE) for name in ("a", "b")]
    assert [app(each).name for each in found * 2] == ["a-later-a", "b-later-b"] * 2
    assert sys.path == path
    assert not {"common", "later"} & sys.modules.keys()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["c.py", "common.py", "later.py"]


def test_a_component_file_is_loaded_and_called_by_several_threads_at_once(tmp_path: Path) -> None:
    (tmp_path / "common.py").write_text("import time\ntime.sleep(0.02)\nNAME = 'a'\n")
    (tmp_path / "later.py").write_text("import common, time\ntime.sleep(0.02)\nNAME = common.NAME\n")
    component(tmp_path, LATE)
    path = list(sys.path)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: app(get_component("c.py:f", folder=str(tmp_path))), range(8))
        assert [each.name for each in found] == ["aa"] * 8
    assert sys.path == path
    assert not {"common", "later"} & sys.modules.keys()


def test_modules_of_others_below_the_folder_stay_loaded(tmp_path: Path, monkeypatch) -> None:
    site = tmp_path / ".venv" / "site"
    site.mkdir(parents=True)
    (site / "installed_there.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    app(component(tmp_path, "import installed_there\ndef f() -> AppDef: return AppDef('f')\n"))
    assert sys.modules.pop("installed_there")


TO_WRITE = "write `launcher` in place of `torchx` in its imports"
STOP = "class Stop(BaseException): pass\nraise Stop('now')\n"


@pytest.mark.parametrize(("text", "why", "hint"), [
    ("from . import x\n", r"relative import.*, line 2 of .*c\.py", "by its name alone"),
    ("import torchx.specs as specs\n", "No module named 'torchx'", TO_WRITE),
    (STOP, r"Stop: now, line 3 of .*c\.py", "None"),
], ids=["a relative import", "an import of torchx", "an exception"])  # fmt: skip
def test_a_file_that_cannot_be_loaded_is_reported_with_its_line(tmp_path, text, why, hint):
    with pytest.raises(ComponentNotFoundException, match=why) as caught:
        _ = component(tmp_path, f"{text}def f() -> AppDef: ...\n").fn
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(("body", "output", "hint"), [
    ("class Stop(BaseException): pass\n    raise Stop('now')", r"failed: Stop: now, line 4 of .*c\.py",
        None),
    ("raise ValueError('no such data')", r"failed: no such data, line 3 of .*c\.py", None),
    ("raise ValueError", r"failed: ValueError: , line 3 of .*c\.py", None),
    ("return int('x')", r"failed: invalid literal .*'x', line 3 of .*c\.py", None),
    ("from torchx import specs", "No module named 'torchx'", TO_WRITE),
])  # fmt: skip
def test_a_component_that_fails_is_reported_with_its_line(tmp_path, body, output, hint):
    with pytest.raises(ComponentFailedException, match=output) as failed:
        app(component(tmp_path, f"def f() -> AppDef:\n    {body}\n"))
    assert failed.value.hint == hint


def test_ctrl_c_is_no_mistake_of_a_component(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        app(component(tmp_path, "def f() -> AppDef: raise KeyboardInterrupt\n"))


@pytest.mark.parametrize(("text", "output"), [
    ("async def f() -> AppDef: ...", "c.py:2: Function: f is async; a component is a plain function"),
    ("def f(a: str,\n      x: int = 'three') -> AppDef: ...",
        "c.py:3: Wrong default for argument 'x' in function 'f': want int, got the text `three`"),
    ("def f(*, x: 'list[int]' = [1, 'a']) -> AppDef: ...", "want int, got the text `a`"),
    ("from typing import *\ndef f(x: Dict[str, int] = {'a': 1.5}) -> AppDef: ...", "want int, got 1.5"),
    ("def f(x: str = 3) -> AppDef: ...", "want str, got 3"),
    ("def f(x: bool | None = 1) -> AppDef: ...", "want bool, got 1"),
])  # fmt: skip
def test_a_mistake_that_the_source_shows_is_refused_with_its_line(tmp_path, text, output):
    with pytest.raises(ComponentValidationException) as caught:
        component(tmp_path, text + "\n")
    assert output in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    ["x: int = None", "x: float = 1", "x: list[str] = []", "x: str = NAME", "x: Mine = 3", "x: tuple = ()"],
)
def test_a_default_that_may_be_right_is_left_to_python(tmp_path: Path, argument: str) -> None:
    found = component(tmp_path, f"NAME = 3\nMine = int\ndef f({argument}) -> AppDef: return AppDef('f')\n")
    assert app(found) == AppDef("f")


DECORATOR = "def d(f):\n    def w({}): {}\n    return w\n@d\ndef f() -> AppDef: ...\n"


def test_a_decorated_component_keeps_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(ComponentSignatureException, match=r"component `c.py:f` takes `\*\*k`") as caught:
        _ = component(tmp_path, DECORATOR.format("**k", "...")).parameters
    assert "functools.wraps" in str(caught.value.hint)
    with pytest.raises(LauncherError, match=r"component `c\.py:f` returned int"):
        app(component(tmp_path, DECORATOR.format("", "return 3")))


def test_every_call_has_its_own_lists(tmp_path: Path) -> None:
    text = "def f(a: list[str] = [], *rest: str, e: dict = {'a': []}) -> AppDef:\n"
    text += "    a.append('x'); e['a'].append('x')\n"
    text += "    return AppDef('f', metadata={'n': len(a) + len(e['a'])})\n"
    found = component(tmp_path, text)
    arguments = component_args_from_str(found.fn, [])
    assert [found.build(arguments).metadata for _ in range(2)] == [{"n": 2}] * 2
    assert app(found).metadata == {"n": 2}
    assert app(found, "--a", "b").metadata == {"n": 3}


def test_stdout_of_python_of_descriptors_and_of_children_goes_to_stderr(capfd):
    print("before")
    with stdout_to_stderr():
        print("python")
        os.write(1, b"descriptor\n")
        subprocess.run(["echo", "child"], check=True)
    print("after")
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert sorted(err.split()) == ["child", "descriptor", "python"]


def test_stdout_is_restored_after_an_error_and_when_the_outermost_redirection_ends(capfd):
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
