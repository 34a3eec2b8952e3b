"""A plan as text: a line per job that is not kept, its changes, counts, the digest."""

from dataclasses import replace
from typing import get_args

import pytest

from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_lines import command
from launcher.cli.render.plan_text import plan_text
from launcher.plan.model import attributed
from launcher.plan.reconcile import Scope
from launcher.plan.step import Blocked, Reason
from launcher.specs import Probe, Role
from launcher.specs.attempt import StoodOn
from launcher.specs.launch import Need
from tests.unit.cli.worlds import attempt, launch, plan


def lines(*args, **options):
    return plan_text(plan(*args, **options)).splitlines()


def test_a_new_job_shows_the_command_of_each_role():
    roles = [
        Role(name="greeter", image="", entrypoint="sh", args=["-c", 'echo "hi" $HOME', "--token", "canary"]),
        Role(name="judge", image="python:3.12", entrypoint="python", args=["x " * 60], num_replicas=12),
    ]
    job = launch("hello")
    job = replace(job, app=replace(job.app, roles=roles))
    assert lines([job])[1:3] == [
        "      greeter    sh -c 'echo \"hi\" $HOME' --token (value …  local_cwd",
        '      judge ×12  python "x x x x x x x x x x x x x x x x…  local_cwd python:3.12',
    ]
    assert all(len(line) <= 80 for line in lines([job]))
    assert "--token (value not shown)" in plan_text(plan([job]), columns=120)


def test_a_new_job_says_which_roles_serve_and_which_wait():
    waits = {"server": "ready", "data": "succeeded"}
    roles = [
        Role(name="server", image="", entrypoint="s", service=True, ready=Probe(port=8000)),
        Role(name="data", image="", entrypoint="d", depends_on={"server": "ready"}),
        Role(name="client", image="", entrypoint="c", depends_on=waits),
    ]
    job = launch("hello")
    assert lines([replace(job, app=replace(job.app, roles=roles))])[1:7] == [
        "      server  s  local_cwd",
        "              service",
        "      data    d  local_cwd",
        "              after server (ready)",
        "      client  c  local_cwd",
        "              after server (ready), data (succeeded)",
    ]


@pytest.mark.parametrize(("word", "shown"), [
    ("--lr=0.1", "--lr=0.1"), ("${replica_id}", "$<replica_id>"), ("", '""'),
    ("two words", '"two words"'), ("it's", '"it\'s"'), ('say "hi"', "'say \"hi\"'"), ("a\\b", "'a\\b'"),
    ("printf '\\r'", "\"printf '\\\\r'\""), ("a\nb", '"a\\nb"'), ("\x1b[1m", '"\\u001b[1m"'),
])  # fmt: skip
def test_a_word_of_a_command_is_quoted_where_its_borders_would_be_unclear(word, shown):
    assert command({"entrypoint": "run", "args": [word]}) == f"run {shown}"


def test_a_new_role_shows_its_command():
    job = launch("train")
    more = Role(name="eval", image="", entrypoint="python", args=["eval.py"], num_replicas=2)
    changed = replace(job, app=replace(job.app, roles=[*job.app.roles, more]))
    text = lines([changed], [attempt(job, "succeeded")])
    assert text[1] == "      + roles.eval: ×2  python eval.py"


@pytest.mark.parametrize(("field", "shown"), [
    ({"retry_delay": 2}, "retry_delay = 2"), ({"service": True}, "service = true"),
    ({"min_replicas": 1}, "min_replicas = 1"), ({"env": {"TOPIC": "entrypoint"}}, 'env.TOPIC = "entrypoint"'),
])  # fmt: skip
def test_an_added_field_of_any_type_is_shown(field, shown):
    before = launch("a")
    after = replace(before, app=replace(before.app, roles=[replace(before.app.roles[0], **field)]))
    made = plan([after], [attempt(before, "succeeded")])
    assert f"+ roles.main.{shown}" in plan_text(made)
    assert f"+ roles.main.{shown}" in plan_markdown(made)


def test_only_the_differing_lines_of_a_long_text_are_shown():
    script = "set -e\npip install -r requirements.txt\npython train.py --epochs {}\n"
    old, new = (launch("train", args=["-c", script.format(n)]) for n in (3, 5))
    text = lines([new], [attempt(old, "succeeded")])
    assert text[1:4] == [
        "      ~ roles.main.args[1]:",
        "          - python train.py --epochs 3",
        "          + python train.py --epochs 5",
    ]
    diff = "  roles.main.args[1]:\n- python train.py --epochs 3\n+ python train.py --epochs 5\n"
    assert f"```diff\n{diff}```" in plan_markdown(plan([new], [attempt(old, "succeeded")]))


def test_jobs_with_the_same_changes_show_them_once():
    pairs = [(launch(name, args=["3"]), launch(name, args=["5"])) for name in ("a", "b", "c")]
    text = lines([new for _, new in pairs], [attempt(old, "succeeded") for old, _ in pairs])
    assert text[2:4] == ["+   b  create: the change of a", "+   c  create: the change of a"]


def test_a_name_of_more_than_half_a_line_pushes_no_other_line_out_of_it():
    long = "x" * 60
    shown = lines([launch("train"), launch(long)])
    assert shown[0] == "+   train  create: no attempt of this job is on record"
    assert f"+   {long}  create: no attempt of this job is on record" in shown


def test_a_note_that_several_jobs_share_is_shown_once():
    made = plan([launch(name) for name in "abc"])
    own = {"b": ["of b alone"]}
    notes = {step.key: ["GPUs are shared", *own.get(step.key.job, [])] for step in made.steps}
    text = plan_text(made.with_notes(notes))
    assert text.count("GPUs are shared") == 1
    assert "\nnote for all 3 jobs: GPUs are shared\n" in text
    assert "\n      note: of b alone\n" in text


def test_notes_are_wrapped_on_a_terminal_and_nowhere_else():
    note = "word " * 40 + "end"
    made = plan([launch("a")]).with_notes({step.key: [note] for step in plan([launch("a")]).steps})
    assert f"      note: {note}\n" in plan_text(made)
    on_terminal = plan_text(made, columns=80)
    assert all(len(line) <= 80 for line in on_terminal.splitlines())
    assert " ".join(on_terminal.split()).count(note) == 1


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_reasons_and_names_of_unchanged_jobs_are_wrapped_on_a_terminal_and_nowhere_else(columns):
    jobs = [launch(name) for name in ("broken", "first-of-all", "second-of-all", "third-of-all")]
    message = "main/0 exited with 3: " + "word " * 20 + "end"
    failed = attempt(jobs[0], "failed", message=message)
    made = plan(jobs, [failed, *(attempt(job, "succeeded") for job in jobs[1:])])
    named = "=   3 jobs unchanged, already succeeded: first-of-all, second-of-all, third-of-all"
    assert {f"!   broken  hold: attempt 1 failed: {message}", named} <= set(plan_text(made).splitlines())
    on_terminal = plan_text(made, columns=columns)
    assert all(len(line) <= columns for line in on_terminal.splitlines())
    in_one_line = " ".join(on_terminal.split())
    assert (in_one_line.count(message), in_one_line.count(" ".join(named.split()))) == (1, 1)


def test_kept_jobs_with_a_common_note_are_counted_all_the_same():
    jobs = [launch(name) for name in "abc"]
    made = plan(jobs, [attempt(job, "succeeded") for job in jobs[:2]])
    text = plan_text(made.with_notes({job.key: ["web:1 has moved"] for job in jobs[:2]})).splitlines()
    assert "=   2 jobs unchanged, already succeeded: a, b" in text
    assert "note for 2 jobs (a, b): web:1 has moved" in text


def test_a_change_shows_the_path_and_both_values():
    old, new = launch("train", args=["3"]), launch("train", args=["5"])
    text = lines([new], [attempt(old, "succeeded")])
    assert text[:2] == [
        "+   train  create: 1 change since attempt 1 (succeeded)",
        '      ~ roles.main.args[0]: "3" → "5"',
    ]
    assert "\n".join(text).count('"5"') == 1
    page = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    assert '```diff\n- roles.main.args[0] = "3"\n+ roles.main.args[0] = "5"\n```' in page
    assert "<details><summary>train: create</summary>" in page


def test_a_replaced_job_names_the_attempts_that_it_stops():
    old, new = launch("train", args=["3"]), launch("train", args=["5"])
    text = lines([new], [attempt(old, "running")])
    assert text[0].startswith("-/+ train  replace: ")
    assert any(line.strip().startswith("stops train-1-") for line in text)


@pytest.mark.parametrize("cause", get_args(Blocked))
def test_each_cause_that_blocks_a_step_has_a_remedy_of_its_own(cause):
    made = plan([launch("train")])
    (step,) = made.steps
    held = replace(made, steps=(replace(step, kind="hold", blocked=cause),))
    assert "to run it again:" not in plan_text(held), (
        f"add what to do about `{cause}` to _remedy in plan_text.py"
    )


HELD = {
    "failed": ({}, "to run it again: --rerun train"),
    "running, protected": ({"protect": True},
        "to allow stopping it, remove `protect: true` from the job file, or cancel the attempt"),
    "running": ({"on_change": "hold"},
        "to replace it, set `on_change: replace` in the job file, or pass --rerun train"),
    "succeeded": ({"on_change": "hold"},
        "to run it, remove `on_change: hold` from the job file, or pass --rerun train"),
}  # fmt: skip


@pytest.mark.parametrize("case", HELD)
def test_a_held_job_is_shown_with_its_remedy(case):
    state, (policy, remedy) = case.partition(",")[0], HELD[case]
    before = attempt(launch("train"), state, message="main/0 exited with 3")
    first, *below = lines([launch("train", args=["5"] if policy else ["1"], **policy)], [before])
    assert first.startswith("!   train  hold: ")
    assert ("main/0 exited with 3" in first) == (state == "failed")
    assert f"      {remedy}" in below


def test_kept_jobs_are_counted_by_their_reason_and_those_that_have_not_started_are_not_running():
    states = {"a": "succeeded", "b": "running", "c": "succeeded", "d": "queued", "e": "waiting"}
    jobs = {name: launch(name) for name in states}
    seen = [attempt(jobs[name], state, owner="pid 1 on here") for name, state in states.items()]
    assert lines([*jobs.values()], seen) == [
        "=   2 jobs unchanged, already succeeded: a, c",
        "=   1 job unchanged, already running: b",
        "=   1 job unchanged, in line: d",
        "=   1 job unchanged, waiting for other jobs: e",
        "",
        "Plan: no changes, 5 unchanged",
    ]


def test_an_empty_plan_has_no_digest_and_any_other_plan_has_one():
    job = launch("a")
    assert "Digest" not in plan_text(plan([job], [attempt(job, "succeeded")]))
    assert lines([job])[-2] == "Digest:"
    assert lines([job])[-1].startswith("lp3:sha256:")
    assert len(lines([job])[-1]) <= 80


def test_jobs_of_several_projects_are_named_with_their_project():
    text = lines([launch("a", project="x"), launch("a", project="y")])
    assert [line.split()[1] for line in text if line.startswith("+")] == ["x/a", "y/a"]


def test_colours_appear_only_where_they_are_asked_for():
    made = plan([launch("a")])
    assert "\x1b" not in plan_text(made)
    assert "\x1b[1;32m+" in plan_text(made, color=True)


def test_markdown_begins_with_a_line_by_which_it_is_found_again():
    one, other = plan([launch("a")]), plan([launch("b")])
    assert (
        plan_markdown(one).splitlines()[0]
        == plan_markdown(other).splitlines()[0]
        == "<!-- launcher plan: default -->"
    )


def test_markdown_of_a_project_that_has_orphans_alone_begins_with_the_same_line():
    gone = attempt(launch("gone", project="vision"), "running")
    here = Scope(origin=gone.origin, target="default")
    assert plan_markdown(plan([], [gone], scopes=[here])).startswith("<!-- launcher plan: vision -->\n")


def test_markdown_of_a_pull_request_names_waiting_apps_that_it_withdraws():
    waiting = attempt(launch("gone"), "waiting")
    made = plan([], [waiting], scopes=[Scope(origin=waiting.origin, target="default")], prune=True)
    text = plan_markdown(attributed(made, [launch("gone")], "main", "this pull request"))
    assert text.splitlines()[1] == "### Withdraws 1 waiting app"


def test_markdown_names_what_changed_beside_the_job_and_the_values_below():
    old, new = launch("train", args=["3"]), launch("train", args=["5"], env={"LR": "0.1"})
    text = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    assert "| `+` | train | create | local_cwd | | changed: roles.main.args[0], roles.main.env.LR |" in text
    assert text.count('"5"') == text.count('"0.1"') == 1


def test_markdown_shows_all_of_a_new_job_without_its_secrets():
    text = plan_markdown(plan([launch("a", env={"API_TOKEN": "canary", "LR": "0.1"})]))
    assert '+ roles.main.entrypoint = "run"' in text
    assert '+ roles.main.env.LR = "0.1"' in text
    assert "canary" not in text


def test_markdown_that_is_too_long_is_cut_from_the_end_and_says_so_at_the_top():
    jobs = [launch(f"job-{n:03}", args=["x" * 100]) for n in range(100)]
    whole = plan_markdown(plan(jobs))
    for bound in (20_000, 5_000, 1_000):
        text = plan_markdown(plan(jobs), max_bytes=bound)
        assert len(text.encode()) <= bound < len(whole.encode())
        assert "left out" in text.splitlines()[3]
        assert "100 to create" in text
        assert text.count("<details>") == text.count("</details>") == text.count("```diff")
    assert "left out" not in whole


def test_markdown_cannot_be_broken_by_values_of_a_job():
    old, new = launch("a", args=["x"]), launch("a", args=["a|b`<script>\n```\n"])
    text = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    row = next(line for line in text.splitlines() if line.startswith("| `+` |"))
    assert "<script>" not in row
    assert row.replace("\\|", "").count("|") == 7
    assert text.count("\n````\n") == 1  # the end of the fence itself, longer than any in a value


def needing(name: str, *jobs: str, **fields):
    return replace(launch(name), needs=tuple(Need(job) for job in jobs), **fields)


def firsts(*args, **options):
    return [line for line in lines(*args, **options) if line[:1] not in (" ", "")]


def test_a_job_is_listed_below_the_last_job_that_it_waits_for():
    last, train = needing("evaluate", "train", "fetch"), needing("train", "prepare")
    assert firsts([last, launch("prepare"), train, launch("fetch")])[:4] == [
        "+   fetch         create: no attempt of this job is on record",
        "+   prepare       create: no attempt of this job is on record",
        "+     train       create, after prepare",
        "+       evaluate  create, after fetch, train",
    ]


def test_a_job_that_is_named_in_the_reason_is_not_named_twice():
    old = attempt(launch("prepare"), "succeeded")
    stood = StoodOn("prepare", 1, 1, old.app_id, old.scheduler)
    done = attempt(needing("train", "prepare"), "succeeded", needs=(stood,))
    changed = replace(launch("prepare"), timeout_s=60)
    assert firsts([changed, needing("train", "prepare")], [old, done])[1] == (
        "r     train  rerun: needs_changed (prepare will run)"
    )


def test_a_job_whose_need_failed_names_that_need():
    failed = attempt(launch("prepare"), "failed", message="main/0 exited with 3")
    shown = lines([launch("prepare"), needing("train", "prepare")], [failed])
    assert shown[2:4] == [
        "!   train    hold: needs_failed (prepare: failed); no attempt of this job is on record",
        "      it follows once prepare has succeeded",
    ]


def test_a_job_with_many_failed_needs_names_some_and_counts_the_others():
    names = [f"part-{n}" for n in range(12)]
    failed = [attempt(launch(name), "failed") for name in names]
    shown = lines([*map(launch, names), needing("train", *names)], failed)
    assert "      it follows once part-0, part-1, part-2, part-3, part-4 … and 7 more have succeeded" in shown


def test_the_advice_for_a_skipped_job_names_the_jobs_that_it_needs():
    failed = attempt(launch("prepare"), "failed")
    made = plan([launch("prepare"), needing("train", "prepare")], [failed])
    reason = Reason("needs_failed", detail="skipped: prepare failed")
    skipped = replace(made, steps=(made.steps[0], replace(made.steps[1], reasons=(reason,))))
    assert "      it follows once prepare has succeeded" in plan_text(skipped).splitlines()


def test_a_plan_shows_that_a_waiting_attempt_is_withdrawn():
    live = attempt(launch("prepare"), "running")
    stood = StoodOn("prepare", 1, 1, live.app_id, live.scheduler)
    wait = attempt(needing("train", "prepare"), "waiting", needs=(stood,), owner="pid 9 on node1")
    changed = replace(needing("train", "prepare"), timeout_s=60)
    shown = plan([launch("prepare"), changed], [live, wait])
    assert f"      withdraws {wait.app_id} (waiting)" in plan_text(shown).splitlines()
    assert f"- withdraws {wait.app_id} (waiting)" in plan_markdown(shown)
    assert " create, after prepare | " in plan_markdown(shown)
