"""The lines of the file `events` in the folder of an app. Python >= 3.6."""

import json
from typing import Any, Dict, List


def parsed(data: bytes) -> List[Dict[str, Any]]:
    """The events of its whole lines; without those that a full disk has cut."""
    found = (_event(line) for line in data.split(b"\n")[:-1])
    return [event for event in found if event is not None]


def _event(line: bytes) -> Any:
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) and "e" in found and "t" in found else None
