import pytest

from launcher.cli.render.apps import ran_for
from launcher.cli.render.values import ago, asked_and_used, duration, iso, table, took
from launcher.holding.use import Use
from launcher.state.records import AppRecord, ReplicaRecord
from launcher.text import listing, width

DURATIONS = {0: "0ms", -1: "0ms", 0.0354: "35ms", 0.9996: "1.0s", 1.24: "1.2s", 9.96: "10s", 59.4: "59s"}
DURATIONS |= {59.6: "1m00s", 185: "3m05s", 3600: "1h00m", 7801: "2h10m", 86400 * 4 + 3600 * 3: "4d03h"}


@pytest.mark.parametrize(("seconds", "text"), DURATIONS.items())
def test_durations_show_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("age_s", "text"), [
    (0, "just now"), (5, "5s ago"), (100, "1m ago"), (-10, "just now"), (7299, "2h ago"),
    (86400 * 3 + 4, "3d ago"),
])  # fmt: skip
def test_an_age_is_shown_in_one_unit(age_s, text):
    assert ago(10**6 - age_s, 10**6) == text
    assert ago(None, 10**6) == ""


@pytest.mark.parametrize(("state", "started_at", "ended_at", "text"), [
    ("succeeded", 20.0, 25.0, "5.0s"), ("running", 20.0, None, "10s"), ("reserved", None, None, ""),
    ("succeeded", None, 12.0, "2.0s"),
    ("queued", 20.0, None, ""),  # its job was queued again
])  # fmt: skip
def test_the_duration_of_an_app_begins_with_its_start_and_not_with_its_wait(
    state, started_at, ended_at, text
):
    times = {"created_at": 10.0, "started_at": started_at, "ended_at": ended_at}
    assert ran_for(AppRecord("local_docker", "s", "a", state=state, **times), 30.0) == text


def test_an_app_takes_as_long_in_a_list_as_with_its_replicas():
    times = {"created_at": 10.0, "started_at": 20.0, "ended_at": 25.0}
    app = AppRecord("local_cwd", "s", "a", state="succeeded", **times)
    listed = ran_for(app, 30.0)
    app.replicas = [ReplicaRecord("main", 0, "succeeded", started_at=19.0, ended_at=24.0)]
    assert ran_for(app, 30.0) == listed == "5.0s"


def test_the_recorded_start_of_an_ended_app_stays():
    app = AppRecord("local_cwd", "s", "a", state="succeeded", started_at=20.0, ended_at=25.0)
    app.update(AppRecord("local_cwd", "s", "a", state="succeeded", started_at=19.0, ended_at=25.0))
    assert app.started_at == 20.0


def test_a_running_app_takes_the_time_until_now():
    assert took(10.0, None, 15.0) == "5.0s"
    assert took(10.0, 12.0, 15.0) == "2.0s"
    assert took(None, 12.0) == ""


def test_iso_times_are_utc_with_milliseconds():
    assert iso(1740832200.1234) == "2025-03-01T12:30:00.123Z"
    assert iso(1740832199.9999) == "2025-03-01T12:30:00.000Z"
    assert iso(None) is None


def test_a_listing_stops_at_its_limit_and_counts_the_rest():
    assert listing(["a", "b"]) == "a, b"
    assert listing(list("abcdefg"), limit=5) == "a, b, c, d, e … and 2 more"


def test_amounts_asked_for_and_used_are_written_alike():
    asked = {"cpu_millis": 1500, "memory_bytes": 3 << 29}
    use = Use((3.0, 0.0, 3 << 29, "cgroup"), 2.0)
    assert asked_and_used(asked, use) == ("1.5", "1.5", "1.5 GiB", "1.5 GiB", "peak", "3.0s", "2.0s")
    assert asked_and_used(asked, None) == ("1.5", "", "1.5 GiB", "", "", "", "")
    assert asked_and_used({"cpu_millis": -1}, Use((0.0, 0.0, 0, ""), 2.0))[:4] == ("", "0", "", "")


TABLES = {
    "columns as wide as their widest cell": ("A LONG", ["xyz 1", "x 2"], "A    LONG\nxyz  1\nx    2"),
    "no blanks at the end of a line": ("A B", ["1 ", "2 x"], "A  B\n1\n2  x"),
    "no column without a cell": ("A B C", ["1  3"], "A  C\n1  3"),
    "its headings without rows": ("A B", [], "A  B"),
}


@pytest.mark.parametrize("what", TABLES)
def test_the_text_of_a_table_has_no_needless_blanks(what):
    headings, rows, text = TABLES[what]
    assert table(headings.split(), [row.split(" ") for row in rows]) == text


def test_colours_do_not_change_the_alignment():
    rows = [[("ok", "green"), "1"], [("failed", "bold red"), "2"]]
    plain = table(["STATE", "N"], rows)
    painted = table(["STATE", "N"], rows, color=True)
    assert "\x1b[1;31mfailed\x1b[0m" in painted
    for code in ("\x1b[1;31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"):
        painted = painted.replace(code, "")
    assert painted == plain


def test_wide_characters_take_two_columns_and_combining_characters_none():
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert table(["A", "B"], [["日本", "1"], ["x", "2"]]).splitlines()[2] == "x     2"
