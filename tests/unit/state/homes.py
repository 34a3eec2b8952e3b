"""State folders that older versions wrote, saved as JSON: files, databases as SQL, and the job files."""

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text())
    return found


def unpack(home: dict[str, Any], scenario):
    """Return the scenario, with the state folder and the job files that `home` holds."""
    scenario.home.mkdir(mode=0o700)
    for name, each in home["files"].items():
        path = scenario.home / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if "text" in each:
            path.write_text(placed(each["text"], scenario))
        else:
            path.write_bytes(base64.b64decode(each["base64"]))
    for name, each in home["databases"].items():
        made = sqlite3.connect(scenario.home / name)
        made.executescript("PRAGMA journal_mode=WAL;" + placed(each["sql"], scenario))
        made.execute(f"PRAGMA user_version={each['version']}")
        made.close()
    for name, text in home["jobs"].items():
        scenario.write(name, text)
    return scenario


def placed(text: str, scenario) -> str:
    """Return a saved text with the folders of this test in place of the saved ones."""
    return text.replace("@FOLDER@/repo", str(scenario.folder)).replace("@FOLDER@/home", str(scenario.home))
