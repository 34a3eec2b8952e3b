"""The live table of a command: what it shows of images on a terminal, and in a file."""

import pytest

from launcher.cli.console import Console
from launcher.cli.live_display import LiveDisplay
from launcher.specs.jobkey import JobKey

KEY = JobKey("", "default", "train")
PULL = [
    ("pulling", {"image": "web:1", "done": 0, "total": 0}),
    ("pulling", {"image": "web:1", "done": 12_000_000, "total": 48_000_000}),
    ("pulled", {"image": "web:1"}),
    ("building", {"image": "w:1", "line": "Step 1/2 : FROM web:1"}),
    ("built", {"image": "w:1", "id": "sha256:00"}),
]


def show(display: LiveDisplay) -> None:
    for kind, facts in PULL:
        display.image(KEY, kind, facts)


def test_in_a_file_images_have_a_line_at_their_beginning_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveDisplay(Console()) as display:
        show(display)
    assert capsys.readouterr().err.splitlines() == [
        "train pulling web:1",
        "train pulled web:1",
        "train w:1: Step 1/2 : FROM web:1",
        "train built w:1",
    ]


def test_on_a_terminal_images_have_a_row_in_place_and_a_line_at_their_end(capsys, monkeypatch):
    console = Console()
    monkeypatch.setattr(Console, "err_is_screen", True)
    printed: list[str] = []
    with LiveDisplay(console, printed.append) as display:
        display.image(KEY, *PULL[0])
        display.say("beside it")  # above the table, which is open
        assert printed == []
        show(display)
    assert printed == ["train pulled web:1", "train built w:1"]  # it closes with its last row
    assert "beside it" in capsys.readouterr().err
