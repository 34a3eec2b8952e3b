"""Seen files: files that the words of a command name, and files that its Python files import.

Import statements are found wherever a statement begins, and nowhere else. Each file is read once.
"""

import ast
import os
import resource
import textwrap
import time
from hashlib import sha256
from pathlib import Path

import pytest

from launcher.specs.inputs import MORE, NOTHING_SEEN, Seen, differing, recorded_paths
from launcher.workspace import seen as seen_
from launcher.workspace.python_imports import Import, imports_of
from launcher.workspace.seen import Command, FileHashes, SeenFiles
from tests.lanes import sampled
from tests.unit.test_layers import FILES


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, *names: str, text: str = "") -> Path:
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path

    def seen(self, *words: str, folder: str = "", search: tuple[str, ...] = ()) -> Seen:
        found = tuple(str(self.root / each) for each in search)
        return SeenFiles(str(self.root)).of([Command(words, str(self.root / folder), found)])

    def names(self, *words: str, **where: object) -> str:
        return " ".join(sorted(recorded_paths(self.seen(*words, **where).record)))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "repo")


def test_files_named_by_words_of_a_command_are_seen(checkout: Checkout):
    checkout.write("train.py", "conf/a.yaml", "conf/b.yaml", "bin/run")
    words = ("bin/run", "train.py", "--config=conf/a.yaml", "conf", "none.py", "3")
    assert checkout.names(*words) == "bin/run conf/a.yaml train.py"
    assert checkout.names("a.yaml", "../train.py", folder="conf") == "conf/a.yaml train.py"
    assert checkout.names(str(checkout.root / "train.py"), folder="conf") == "train.py"


def test_files_named_in_a_shell_script_are_seen(checkout: Checkout):
    checkout.write("train.py", "b.csv", "model.py")
    script = "set -x\npython train.py <b.csv >out.csv; python -c 'import model' && test -f 'none'\n"
    assert checkout.names("sh", "-euc", script) == "b.csv train.py"


def test_imports_of_a_seen_file_are_followed(checkout: Checkout):
    checkout.write("bin/tool", text="#!/usr/bin/env python3\nimport helper")
    checkout.write("bin/helper.py")
    assert checkout.names("./bin/tool") == "bin/helper.py bin/tool"
    checkout.write("src/train.py", text="import model, numpy\nfrom data import load\n")
    checkout.write("src/model.py", text="def f():\n    import layers.dense as d\n")
    checkout.write("src/data.py", text="import train")  # a circle
    checkout.write("src/layers/__init__.py", text="from . import sparse, nothing\nfrom .. import up\n")
    checkout.write("src/layers/dense.py", "src/layers/sparse.py", "src/up.py", "src/unused.py", "model.py")
    modules = "data layers/__init__ layers/dense layers/sparse model train up"
    expected = " ".join(f"src/{each}.py" for each in modules.split())
    assert checkout.names("python", "src/train.py") == expected


def test_a_module_is_run_with_its_packages(checkout: Checkout):
    checkout.write("pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/__main__.py", "top.py", "pkg/other.py")
    checkout.write("pkg/mod.py", text="import top\nfrom pkg import other, missing\nfrom .sub import x")
    modules = "pkg/__init__.py pkg/mod.py pkg/other.py pkg/sub/__init__.py top.py"
    assert checkout.names("python", "-m", "pkg.mod", "--x") == modules
    assert "pkg/sub/__main__.py" in checkout.names("python", "-m", "pkg.sub")
    assert checkout.names("python", "-mtop") == "top.py"
    assert checkout.names("python", "-m", "http.server") == ""


def test_folders_without_init_and_of_pythonpath_are_searched(checkout: Checkout):
    checkout.write("app/run.py", text="import lib.deep.a, time")
    checkout.write("libs/lib/deep/a.py", "app/time.py")
    assert checkout.names("python", "app/run.py") == "app/run.py"
    assert checkout.names("python", "app/run.py", search=("libs",)) == "app/run.py libs/lib/deep/a.py"


def test_nothing_outside_of_the_repository_is_read(checkout: Checkout, tmp_path: Path):
    (tmp_path / "secret.py").write_text("import x")
    checkout.write(
        "train.py", text="import link, inside, gone, pipe\nfrom .. import secret\nfrom ... import y"
    )
    checkout.write("real.py", text="")
    (checkout.root / "link.py").symlink_to("../secret.py")
    (checkout.root / "inside.py").symlink_to("real.py")
    (checkout.root / "gone.py").symlink_to("nowhere")
    os.mkfifo(checkout.root / "pipe.py")
    words = (
        "train.py", "link.py", "pipe.py", "../secret.py", "/etc/passwd", "/dev/zero", "a\0b", "", "\udcff",
    )  # fmt: skip
    assert checkout.names(*words) == "inside.py train.py"


def test_a_checkout_behind_a_link_has_the_same_paths(checkout: Checkout, tmp_path: Path):
    checkout.write("train.py", text="import model")
    checkout.write("model.py")
    (tmp_path / "other").symlink_to(checkout.root)
    for root, folder in ((tmp_path / "other", checkout.root), (checkout.root, tmp_path / "other")):
        got = SeenFiles(str(root)).of([Command(("train.py",), str(folder))])
        assert sorted(got.record) == ["model.py", "train.py"]


def test_the_limits_of_seen_files_are_kept_and_reported(checkout: Checkout, monkeypatch: pytest.MonkeyPatch):
    for number in range(30):
        checkout.write(f"m{number}.py", text=f"import m{number + 1}")
    assert MORE not in checkout.seen("m0.py").record
    monkeypatch.setattr(seen_, "MOST_FILES", 10)
    found = checkout.seen("m0.py")
    assert (len(recorded_paths(found.record)), MORE in found.record) == (10, True)
    monkeypatch.setattr(seen_, "MOST_FILES", 256)
    monkeypatch.setattr(seen_, "MOST_TOTAL_BYTES", 100)
    assert MORE in checkout.seen("m0.py").record
    monkeypatch.setattr(seen_, "_MOST_STEPS", 5)
    assert MORE in checkout.seen("m0.py").record


def test_a_large_file_is_not_seen(checkout: Checkout):
    checkout.write("train.py", text="import big")
    checkout.write("big.py", text="#" * (seen_.MOST_BYTES + 1))
    assert checkout.names("train.py", "big.py") == "train.py"


def test_each_file_is_read_once_for_any_number_of_jobs(checkout: Checkout, monkeypatch: pytest.MonkeyPatch):
    checkout.write("train.py", text="import model")
    checkout.write("model.py")
    read: list[str] = []
    real = seen_.read_regular
    monkeypatch.setattr(seen_, "read_regular", lambda path, limit: read.append(path) or real(path, limit))
    finder = SeenFiles(str(checkout.root))
    for number in range(50):
        finder.of([Command(("python", "train.py", str(number)), str(checkout.root))])
    assert sorted(os.path.basename(path) for path in read) == ["model.py", "train.py"]


def test_recorded_files_are_compared_whatever_files_the_words_name_now(checkout: Checkout):
    checkout.write("a.py", "b.py")
    finder = SeenFiles(str(checkout.root))
    now = finder.digests(["a.py", "gone.py", "../secret.py"])
    assert now["a.py"]
    assert (now["gone.py"], now["../secret.py"]) == ("", "")


RECORD = {"train.py": "1", "model.py": "2"}


@pytest.mark.parametrize(("now", "want"), [
    (Seen(RECORD), ()), (Seen({**RECORD, "train.py": "3"}), ("train.py",)),
    (Seen({**RECORD, "train.py": ""}), ("train.py",)), (Seen({"train.py": "1"}), ("model.py",)),
    (Seen({**RECORD, "new.py": "3"}, frozenset({"new.py"})), ("new.py",)),
    (Seen({**RECORD, "out.json": "3"}), ()),
    (Seen({**RECORD, "new.py": "3", MORE: "more"}, frozenset({"new.py"})), ()),
])  # fmt: skip
def test_changed_removed_and_newly_imported_files_count_as_different(now: Seen, want: tuple[str, ...]):
    assert differing(RECORD, now) == want


def test_a_truncated_record_reports_no_change_of_other_files_and_no_record_none():
    cut = {**RECORD, MORE: "more"}
    new = frozenset({"new.py"})
    assert differing(cut, Seen({**RECORD, "new.py": "3"}, new)) == ()
    assert differing(cut, Seen({**RECORD, "model.py": "3", "new.py": "3"}, new)) == ("model.py",)
    assert differing({}, Seen(RECORD, frozenset(RECORD))) == ()
    assert NOTHING_SEEN.record == {}


def names(source: str) -> list[str]:
    return [f"{'.' * each.level}{each.module}" for each in imports_of(textwrap.dedent(source).encode())]


def test_every_form_of_import_is_read():
    source = """
        import a.b, c as d
        from . import x, y
        from ..p.q import (r,  # a comment )
            s)
        if True: import z
        x = 1; import w
        from \\
            k import *
        def f():
            try:
                from m import n
            except ImportError: import o
        from . import importlib
    """
    assert names(source) == ["a.b", "c", ".", "..p.q", "z", "w", "k", "m", "o", "."]
    found = list(imports_of(textwrap.dedent(source).encode()))
    assert found[2:4] == [Import(1, "", ("x", "y")), Import(2, "p.q", ("r", "s"))]


def test_text_and_comments_import_nothing():
    source = '''
        """A docstring.

        import no
        """
        # import no
        text = "it's \\" import no"
        more = \'\'\'
        from no import no \\\'\'\'
        import no
        \'\'\'
        def f():
            yield (1,
                from no)
        important = fromage = 1
        import last
    '''
    assert names(source) == ["last"]


@pytest.mark.slow
def test_the_sources_of_this_repository_are_read_as_ast_reads_them():
    for path in FILES:
        nodes = [
            n for n in ast.walk(ast.parse(path.read_bytes())) if isinstance(n, (ast.Import, ast.ImportFrom))
        ]
        want = [
            f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else alias.name
            for node in nodes
            for alias in (node.names if isinstance(node, ast.Import) else node.names[:1])
        ]
        got = [f"{'.' * each.level}{each.module}" for each in imports_of(path.read_bytes())]
        assert sorted(got) == sorted(want), path


@pytest.mark.parametrize(
    "source", [b"\xef\xbb\xbfimport a", b"# coding: latin-1\n# \xe9\nimport a", b"import a\r\n"]
)
def test_imports_are_found_in_source_of_every_encoding(source: bytes):
    assert [each.module for each in imports_of(source)] == ["a"]


MANY = 1 << 20


HOSTILE = [
    "'" * MANY,
    "'" + "\\" * MANY,
    '"""' + "\\a" * (MANY // 2),
    "import a\n" * (MANY // 9),
    "from a import (\n" * (MANY // 16),
    "#\n" * (MANY // 2),
    'f"' + "{a}" * (MANY // 3) + '"',
    ": " * (MANY // 2),
    "import " + "a." * (MANY // 2) + "a",
    ("import " + "a." * 150 + "a\n") * 3000,
    "from a import " + "b," * (MANY // 2) + "b",
    "from a import " + "(" * MANY,
    "a" + "()" * (MANY // 2) + "\nimport (",
    "import a\0",
    "import 1\nfrom import\nimport a as\nfrom . import\n",
    "\\\n" * (MANY // 2) + "import a",
]


@pytest.mark.parametrize("source", sampled(HOSTILE, *HOSTILE[::5]), ids=lambda text: repr(text[:12]))
def test_hostile_source_takes_bounded_time(source: str):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for _ in imports_of(source.encode()):
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_a_file_is_read_once_for_each_reader(tmp_path: Path):
    file = tmp_path / "train.py"
    file.write_bytes(b"one")
    hashes = FileHashes()
    first = hashes.digest(str(file))
    file.write_bytes(b"two")
    assert first == hashes.digest(str(file)) == sha256(b"one").hexdigest()
    assert FileHashes().digest(str(file)) == sha256(b"two").hexdigest()


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        with pytest.raises(OSError, match=r"pipe|No such|directory"):
            FileHashes().digest(str(tmp_path / name))


def test_a_file_at_rest_is_not_read_again_and_a_file_just_written_is(tmp_path, monkeypatch):
    read: list[str] = []
    real = seen_.file_hash
    monkeypatch.setattr(seen_, "file_hash", lambda path: read.append(path) or real(path))
    file = tmp_path / "train.py"
    file.write_bytes(b"one")
    FileHashes().digest(str(file))
    FileHashes().digest(str(file))
    assert len(read) == 2  # a change within the tick of the file system's clock would not show
    later = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(seen_, "time_ns", lambda: later)
    FileHashes().digest(str(file))
    FileHashes().digest(str(file))
    assert len(read) == 3
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the size and the time of the old content
    assert FileHashes().digest(str(file)) == sha256(b"two").hexdigest()
