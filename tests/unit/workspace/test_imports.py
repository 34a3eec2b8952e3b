"""Import statements of Python source: found wherever a statement begins, and nowhere else."""

import ast
import resource
import textwrap

import pytest

from launcher.workspace.seen import Import, imports_of
from tests.lanes import sampled
from tests.unit.test_layers import FILES


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
    """
    assert names(source) == ["a.b", "c", ".", "..p.q", "z", "w", "k", "m", "o"]
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
def test_encodings_do_not_hide_imports(source: bytes):
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
