"""The apps with an outcome, and a cache of their facts."""

import json
import os
from typing import Any, Dict, List, Sequence, Set, Tuple

from launcher.schedulers.slurm.site.agent.facts import add_replicas, read_app
from launcher.schedulers.slurm.site.agent.folder import Json, OpError, replace
from launcher.schedulers.slurm.site.agent.site import Site


class Ended:
    """The apps with an outcome, and the cache of their facts: `<job_dir>/index`.

    A line of it holds a JSON array [app id, stamp of the outcome file, key, number], a tab, and the facts. A
    line whose stamp does not fit any more is not used.
    """

    def __init__(self, site: Site, app_ids: Sequence[str]) -> None:
        self._site = site
        self._path = os.path.join(site.job_dir, "index")
        self.stamps: Dict[str, List[int]] = {}
        for app_id in app_ids:
            try:
                found = os.stat(os.path.join(site.apps, app_id, "outcome"))
            except OSError:
                continue
            self.stamps[app_id] = [found.st_ino, found.st_mtime_ns, found.st_size]
        self._lines: Dict[str, Tuple[List[Any], str]] = {}
        self._all = len(app_ids)
        self._known = 0
        if self.stamps:
            self._load()

    def _load(self) -> None:
        try:
            with open(self._path) as file:
                lines = file.read().splitlines()
        except (OSError, ValueError):
            return
        self._known = len(lines)
        for line in lines:
            head, tab, facts = line.partition("\t")
            try:
                header = json.loads(head)
                if tab and self.stamps.get(header[0], header[1]) == header[1]:
                    self._lines[header[0]] = (header, facts)
            except (ValueError, IndexError, TypeError, KeyError):
                continue

    def _line(self, app_id: str) -> Tuple[List[Any], str]:
        if app_id not in self._lines:
            facts = read_app(self._site, app_id)
            if facts is None or facts["outcome"] is None:
                raise OpError("unknown-app", app_id)
            attempt = facts["attempt"]
            header = [app_id, self.stamps[app_id], attempt.get("key"), attempt.get("number", 0)]
            self._lines[app_id] = (header, json.dumps(facts))
        return self._lines[app_id]

    def facts(self, app_id: str, replicas: bool = False) -> Json:
        found: Json = json.loads(self._line(app_id)[1])
        if replicas:
            with self._site.open(app_id) as folder:
                add_replicas(folder, found)
        return found

    def latest(self, keys: Sequence[Tuple[str, ...]]) -> Set[str]:
        """The ended apps with the highest number of each of these keys."""
        best: Dict[Tuple[str, ...], Tuple[int, str]] = {}
        wanted = set(keys)
        for app_id in self.stamps if wanted else ():
            try:
                _, _, key, number = self._line(app_id)[0]
            except OpError:
                continue
            if key is not None and tuple(key) in wanted:
                best[tuple(key)] = max(best.get(tuple(key), (0, "")), (number, app_id))
        return {app_id for _, app_id in best.values()}

    def save(self) -> None:
        """Write the cache anew when that spares later calls enough."""
        kept = {each: line for each, line in self._lines.items() if each in self.stamps}
        if len(kept) - self._known >= max(8, self._known // 10):
            replace(
                self._path, "".join(json.dumps(head) + "\t" + text + "\n" for head, text in kept.values())
            )
