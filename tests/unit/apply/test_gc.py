"""Which apps gc removes, decided on values alone."""

from launcher.apply.gc import Rule, reasons
from launcher.state.records import AppRecord

DAY_S = 86400.0
NOW = 100 * DAY_S


def app(name: str, days: float, *, session: str = "default") -> AppRecord:
    """Return an app that ended so many days ago."""
    return AppRecord("local_cwd", session, f"{name}-{days:g}", name=name, ended_at=NOW - days * DAY_S)


def left(apps: list[AppRecord], rule: Rule) -> list[str]:
    return [each.app_id for each, why in reasons(apps, rule, now=NOW)[::-1] if not why]


def test_apps_that_ended_before_the_age_limit_are_removed_oldest_first() -> None:
    assert left([app("a", 1), app("a", 8), app("b", 9)], Rule()) == ["b-9", "a-8"]


def test_the_newest_apps_of_every_job_stay_whatever_their_age() -> None:
    apps = [app("a", 8), app("a", 9), app("a", 10), app("b", 30), app("a", 40, session="other")]
    assert left(apps, Rule(keep=1)) == ["a-10", "a-9"]


def test_a_young_app_counts_among_the_kept_apps_of_its_job() -> None:
    assert left([app("a", 1), app("a", 8)], Rule(keep=1)) == ["a-8"]


def test_an_age_limit_of_zero_removes_every_app_that_is_not_kept() -> None:
    assert left([app("a", 0), app("a", 1)], Rule(older_than_s=0)) == ["a-1", "a-0"]


def test_each_app_that_stays_has_a_reason() -> None:
    apps = [app("a", 1), app("a", 8), app("b", 3), app("b", 9)]
    why = {each.app_id: why.partition(" ")[0] for each, why in reasons(apps, Rule(keep=1), now=NOW)}
    assert why == {"a-1": "among", "a-8": "", "b-3": "among", "b-9": ""}
    why = {each.app_id: why.partition(" ")[0] for each, why in reasons(apps, Rule(), now=NOW)}
    assert why == {"a-1": "ended", "a-8": "", "b-3": "ended", "b-9": ""}


def test_an_app_that_its_client_has_yet_to_read_stays() -> None:
    young = app("a", 0)
    young.in_use = True
    assert left([young, app("b", 0)], Rule(older_than_s=0)) == ["b-0"]
