"""Every message is in our words, with a remedy; pydantic's wording never reaches the user."""

import ast
import re
from pathlib import Path

import pytest

from launcher.jobfile.diagnostic import CODES


@pytest.mark.slow
def test_every_code_in_use_is_documented() -> None:
    import launcher.jobfile

    folder = Path(launcher.jobfile.__file__).parent
    rooms = ("text", "model", "messages", "compile")
    files = [path for room in rooms for path in (folder / room).glob("*.py")]
    trees = [ast.parse(path.read_text()) for path in files]
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    used = {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}
    used -= {"utf-8", "utf-8-sig", "duplicate-destination", "duplicate-role"}
    used -= {"build-system", "dev-environment", "on-failure", "runs-on"}  # keys of other tools
    used -= {"unusable-name", "unusable-path", "unusable-text"}  # names of `specs.check`, translated
    assert used == CODES.keys() - {"constraint", "encoding", "unreadable"}
