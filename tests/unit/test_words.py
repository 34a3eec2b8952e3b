"""Prose of the package and of its documentation uses nouns of the domain instead of these words."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = re.compile(r"\b(nobody|somebody|whoever|told|wish|bury|news|roster|sight)\b", re.IGNORECASE)
"""Write client, user, caller, replica, record, event, outcome or request."""

BUDGET = 3
"""Lower it with the count; it never rises."""


def test_prose_names_who_acts_and_what_is_recorded() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for folder, suffix in (("launcher", "*.py"), ("docs", "*.md"))
        for path in sorted((ROOT / folder).rglob(suffix))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for word in WORDS.findall(line)
    ]
    assert len(found) <= BUDGET, "\n".join(found)
