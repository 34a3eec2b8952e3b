"""What commands show at a terminal: progress bars of several replicas, and the table of images."""

import re

import pytest
from hypothesis import given, strategies as st

from launcher.cli.console import Console
from launcher.cli.live_display import LiveDisplay
from launcher.cli.render import live_frames
from launcher.cli.render.live_frames import LiveFrames, cut
from launcher.specs.jobkey import JobKey
from tests.terminals import launcher


class Screen:
    """A terminal that knows newlines, cursor up, and erasing to its end; it may not scroll further up."""

    def __init__(self) -> None:
        self.lines = [""]
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        for part in re.split(r"(\n|\x1b\[\d+A|\x1b\[J)", data.decode().replace("\r", "")):
            if part == "\n":
                self.lines.append("")
            elif part == "\x1b[J":
                pass
            elif part.startswith("\x1b["):
                assert self.lines[-1] == ""
                assert int(part[2:-1]) < ROWS
                self.lines = [*self.lines[: -1 - int(part[2:-1])], ""]
            else:
                self.lines[-1] += part


ROWS = 4
SHOWN = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.sampled_from([b"", b"line\n", b"one\ntwo\n"]),
        st.sampled_from([b"", b"1%", b"2%", b"3% of a frame that is too long"]),
    )
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock as (step, now) in seconds: each look at the clock advances it by the step."""
    steps = [1.0, 0.0]  # step, now

    class Clock:
        @staticmethod
        def monotonic() -> float:
            steps[1] += steps[0]
            return steps[1]

    monkeypatch.setattr(live_frames, "time", Clock)
    return steps


@given(SHOWN)
def test_the_screen_has_every_line_and_then_the_last_frames(shown: list[tuple[str, bytes, bytes]]) -> None:
    screen = Screen()
    frames: dict[str, str] = {}
    lines = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_frames, "INTERVAL_S", 0.0)
        live = LiveFrames(screen.write, lambda: (10, ROWS))
        for where, text, frame in shown:
            live.show(where, text, frame)
            lines += text.decode()
            if frame or where in frames:
                frames[where] = frame.decode()[:9]
        live.close()
    drawn = [frame for frame in frames.values() if frame]
    if len(drawn) >= ROWS:
        drawn = [*drawn[: ROWS - 2], f"... and {len(drawn) - ROWS + 2} more"]
    assert screen.lines == [*lines.splitlines(), *drawn, ""]


def test_frames_are_drawn_at_intervals_and_lines_at_once(clock: list[float]) -> None:
    screen = Screen()
    live = LiveFrames(screen.write, lambda: (80, 24))
    clock[0] = 0.001
    for n in range(100):
        live.show("a", b"", b"%d%%" % n)
    live.close()
    assert screen.writes <= 3
    live.show("b", b"line\n", b"")
    assert screen.lines == ["line", "99%", ""]


def test_the_last_frame_is_drawn_though_nothing_follows() -> None:
    screen = Screen()
    live = LiveFrames(screen.write, lambda: (80, 24))
    for n in range(5):
        live.show("a", b"", b"%d%%" % n)
    timer = live._timer
    timer.join(10)
    assert screen.lines == ["4%", ""]


def test_text_written_by_other_means_appears_above_the_frames(clock: list[float]) -> None:
    screen = Screen()
    live = LiveFrames(screen.write, lambda: (80, 24))
    live.show("a", b"", b"1%")
    with live.above():
        screen.write(b"note\n")
    assert screen.lines == ["note", "1%", ""]


@pytest.mark.parametrize(("frame", "columns", "row"), [
    (b"short", 9, b"short"), (b"0123456789", 5, b"01234"), ("█████".encode(), 3, "███".encode()),
    ("漢字漢字".encode(), 5, "漢字".encode()),
    (b"\x1b[32m0123\x1b[0m456", 5, b"\x1b[32m0123\x1b[0m4\x1b[0m"),
    (b"a\x1b[Kb\x1b[3Ac\x1b]0;title\x07d\te", 80, b"abcd e"),
    (b"\xff bell\x07\x9b", 80, "\ufffd bell\ufffd".encode()), (b"anything", 0, b""),
])  # fmt: skip
def test_a_frame_is_cut_to_a_row_that_moves_no_cursor(frame: bytes, columns: int, row: bytes) -> None:
    assert cut(frame, columns) == row


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


def test_ctrl_z_shows_the_cursor_that_a_live_table_hides(scenario):
    scenario.job("sleep 60", name="long")
    scenario.apply("long.launcher.yaml")
    shown = launcher(scenario, "status", "--watch", is_controlling=True, size=(24, 80))
    shown.until(rb"\?25l")
    shown.type(b"\x1a")
    shown.until(rb"\?25h")  # no shell has started the command, so the system does not suspend it
    shown.type(b"\x03")
    assert shown.end(130).rstrip().rpartition("?25")[2].startswith("h")
    scenario.launcher("cancel", "long")
