"""Pull requests whose texts try to control their comment."""

from tests.scenarios.ci.test_stories import job, repo

__all__ = ["repo"]

MARK = "<!-- launcher applied -->"


def test_a_text_like_the_mark_of_applied_jobs_hides_no_part_of_a_later_plan(repo, github):
    def run(text: str) -> dict[str, str | None]:
        script = f"      {MARK}\n      echo {text}\n"
        role = f"version: 1\nname: train\nroles:\n  main:\n    run: |\n      true\n{script}"
        return {"train.launcher.yaml": role, "zebra.launcher.yaml": job("zebra", text)}

    repo.propose(1, run("reviewed"))
    repo.propose(1, run("other"))
    (comment,) = github.bodies(1)
    assert "other" in comment
    assert "reviewed" not in comment
    commit = repo.merge(1)
    repo.apply()
    (comment,) = github.bodies(1)
    assert comment.endswith(f"\n{MARK}\napplied at {commit[:7]}: started train and zebra\n")
    assert "zebra" in comment
