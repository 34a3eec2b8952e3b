"""No bytes make `validate` print a traceback, hang, or use more than 200 MB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import sampled

MOST_MB = 200
SECONDS = 5.0
HEAD = b"version: 1\nname: job\nroles: {main: {entrypoint: a, "
# Everything on one line: each problem has a mebibyte of context.
LONG_LINES = {
    "equal-keys.launcher.yaml": HEAD + b"env: {" + b'A: "a", ' * 9_900 + b"}}}",
    "equal-keys.launcher.toml": b"version = 1\nenv = {" + b"A = 1, " * 9_900 + b"A = 1}",
    "wrong-items.launcher.yaml": HEAD + b"args: [" + b"[], " * 19_000 + b"]}}",
    "unknown-references.launcher.yaml": HEAD + b"args: [" + b'"$<a.b>", ' * 9_000 + b"]}}",
    "references-in-one-text.launcher.yaml": HEAD + b'args: ["' + b"$<a.b>" * 9_000 + b'"]}}',
    "quotes.launcher.yaml": b'"' * 2**20,
    "brackets.launcher.yaml": b"[" * 2**20,
    "braces.launcher.toml": b"a = " + b"[" * (2**20 - 4),
    "one-text.launcher.yaml": HEAD + b"args: [" + b"x" * (2**20 - 80) + b"]}}",
    "digits.launcher.yaml": HEAD + b"num_replicas: " + b"9" * (2**20 - 80) + b"}}",
    "digits.launcher.toml": b"version = " + b"9" * (2**20 - 10),
    "dots.launcher.toml": b"a." * 2**18 + b"a = 1",
}
MEASURED = """
import json, sys
from pathlib import Path
from tests.corpus.fuzz import peak_mb, validated
print(json.dumps({"said": validated(Path(sys.argv[1]), sys.argv[2]), "peak_mb": peak_mb()}))
"""


@pytest.mark.slow
def test_validate_survives_damaged_files_of_the_corpus(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.corpus.fuzz", "--seconds", str(SECONDS), "--keep", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(ended.stdout)
    assert figures["inputs"] > 10
    assert figures["peak_mb"] < MOST_MB


CASES = [(name, "text") for name in LONG_LINES]
CASES += [(f"{name}.launcher.yaml", "sarif") for name in ("wrong-items", "quotes")]
CASES += [("digits.launcher.toml", "sarif")]
QUICK = [("quotes.launcher.yaml", "text"), ("digits.launcher.toml", "text")]


@pytest.mark.parametrize("case", sampled(CASES, *QUICK), ids="-".join)
def test_validate_survives_files_of_one_long_line(tmp_path: Path, case: tuple[str, str]) -> None:
    name, style = case
    path = tmp_path / name
    path.write_bytes(LONG_LINES[name])
    command = [sys.executable, "-c", MEASURED, str(path), style]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    figures = json.loads(ended.stdout or "{}")
    assert figures.get("said") == "", ended.stderr
    assert figures["peak_mb"] < MOST_MB
