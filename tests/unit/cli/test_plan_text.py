"""What people read of a plan: a line per job that is not kept, its changes, counts, the digest."""

from __future__ import annotations

from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
from tests.unit.cli.worlds import attempt, launch, plan


def lines(*args, **options):
    return plan_text(plan(*args, **options)).splitlines()


def test_a_new_job_is_one_line_with_its_reason():
    assert lines([launch("train")])[0] == "+   train  create: no attempt of this job is on record"


def test_a_change_shows_the_path_and_both_values():
    old, new = launch("train", args=["3"]), launch("train", args=["5"])
    text = lines([new], [attempt(old, "succeeded")])
    assert text[0].startswith("+   train  create: ")
    assert text[1] == '      ~ roles.main.args[0]: "3" → "5"'


def test_a_replaced_job_names_what_it_stops():
    old, new = launch("train", args=["3"]), launch("train", args=["5"])
    text = lines([new], [attempt(old, "running")])
    assert text[0].startswith("-/+ train  replace: ")
    assert any(line.strip().startswith("stops train-1-") for line in text)


def test_a_held_job_says_what_to_do():
    job = launch("train")
    text = lines([job], [attempt(job, "failed", message="main/0 exited with 3")])
    assert text[0].startswith("!   train  hold: ")
    assert "main/0 exited with 3" in text[0]
    assert "--rerun train" in text[1]


def test_a_job_held_by_its_own_policy_says_which():
    old, new = launch("train", args=["3"]), launch("train", args=["5"], protect=True)
    assert "protect" in "\n".join(lines([new], [attempt(old, "running")]))


def test_kept_jobs_are_counted_by_their_reason():
    jobs = [launch("a"), launch("b"), launch("c")]
    seen = [attempt(jobs[0], "succeeded"), attempt(jobs[1], "running"), attempt(jobs[2], "succeeded")]
    text = lines(jobs, seen)
    assert text[:2] == [
        "=   2 jobs unchanged, already succeeded: a, c",
        "=   1 job unchanged, already running: b",
    ]
    assert text[-1] == "Plan: no changes, 3 unchanged"


def test_an_empty_plan_has_no_digest_and_any_other_one():
    job = launch("a")
    assert "Digest" not in plan_text(plan([job], [attempt(job, "succeeded")]))
    assert lines([job])[-1].startswith("Digest: lp2:sha256:")


def test_jobs_of_several_projects_are_named_with_theirs():
    text = lines([launch("a", project="x"), launch("a", project="y")])
    assert [line.split()[1] for line in text[:2]] == ["x/a", "y/a"]


def test_colours_only_where_they_are_asked_for():
    made = plan([launch("a")])
    assert "\x1b" not in plan_text(made)
    assert "\x1b[1;32m+" in plan_text(made, color=True)


def test_markdown_is_found_again_by_its_first_line():
    one, other = plan([launch("a")]), plan([launch("b")])
    assert (
        plan_markdown(one).splitlines()[0]
        == plan_markdown(other).splitlines()[0]
        == "<!-- launcher plan: default -->"
    )


def test_markdown_shows_a_change_as_a_diff():
    old, new = launch("train", args=["3"]), launch("train", args=["5"])
    text = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    assert '```diff\n- roles.main.args[0] = "3"\n+ roles.main.args[0] = "5"\n```' in text
    assert "<details><summary>train: create</summary>" in text


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


def test_markdown_cannot_be_broken_by_what_is_in_a_job():
    old, new = launch("a", args=["x"]), launch("a", args=["a|b`<script>\n```\n"])
    text = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    row = next(line for line in text.splitlines() if line.startswith("| `+` |"))
    assert "<script>" not in row
    assert row.replace("\\|", "").count("|") == 5
    assert text.count("\n````\n") == 1  # the end of the fence itself, longer than any in a value
