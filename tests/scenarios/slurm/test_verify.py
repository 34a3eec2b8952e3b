"""`verify` by the folder on the cluster alone."""

import json
import shutil
from pathlib import Path


def test_the_folder_on_the_cluster_confirms_the_links_and_shows_what_was_changed(scenario):
    scenario.run_to_end(scenario.job('echo 1 >"$LAUNCHER_OUTPUT_DIR/model"'))
    shutil.rmtree(scenario.home)

    def marks(code: int) -> dict[str, str]:
        done = scenario.launcher("verify", "job", "--json", code=code)
        return {link["name"]: link["mark"] for link in json.loads(done.out)["links"]}

    checked = dict.fromkeys(("document", "workspace", "image", "exit", "outputs"), "checked")
    whole = {"pull request": "missing", "approval": "missing", **checked}
    assert marks(0) == whole
    (app_id,) = scenario.apps()
    folder = scenario.job_dir / "apps" / app_id
    changes = [
        (folder / "attempt.json", '"entrypoint": "sh"', '"entrypoint": "ash"', "document"),
        (scenario.job_dir / "outputs" / app_id / "model", "1", "2", "outputs"),
        (folder / "outcome", '"state": "succeeded"', '"state": "failed"', "exit"),
        (folder / "attempt.json", '"effect": "le1:', '"effect": "le1:0', "approval"),
        (folder / "outcome", "ou1:sha256:", "ou1:sha256:0", "outputs"),
    ]
    for at_once in (changes[:2], changes[2:3], changes[3:]):
        for path, old, new, _ in at_once:
            edit(path, old, new)
        found = marks(8)
        assert {found[link] for *_, link in at_once} == {"wrong"}, found
        for path, old, new, _ in at_once:
            edit(path, new, old)
    assert marks(0) == whole


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
