"""The output folders of jobs on clusters, in the folder of all apps there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from os.path import expanduser, isdir, join

from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.clusters import Clusters
from launcher.schedulers.slurm.known import SLURM, Place
from launcher.schedulers.staged import OutputFolders
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import has_output, needs_variable, output_macro, own_output, read_outputs


class SlurmOutputs(OutputFolders):
    """The output folders of the clusters."""

    def __init__(self, clusters: Clusters) -> None:
        super().__init__(SLURM)
        self._clusters = clusters

    def names(self) -> list[str]:
        found = self._clusters.of_each(lambda cluster: cluster.ask("outputs")["outputs"])
        return sorted({name for names in found for name in names})

    def address(self, attempt: Attempt, app: AppDef) -> str:
        """The path of the output folder on the app's cluster."""
        if not has_output(app):
            return ""
        cluster = self._clusters.at(known.place_of(attempt.document.get("cfg", {})))
        return join(cluster.root, "outputs", own_output(attempt))

    def lost(self, attempts: Iterable[Attempt]) -> set[str]:
        """The app ids whose folder `observe` did not find; none for a cluster that did not answer then."""
        lost = set()
        for each in attempts:
            there = self._clusters.outputs.get(_place_of(each))
            if each.output and there is not None and own_output(each) not in there:
                lost.add(each.app_id)
        return lost

    def archive(self, attempt: Attempt, only: str = "") -> tuple[Iterator[bytes], str]:
        return self._clusters.at(_place_of(attempt)).pack(own_output(attempt), only), ""

    def digest(self, attempt: Attempt) -> str:
        cluster = self._clusters.at(_place_of(attempt))
        return str(cluster.ask("hash_output", name=own_output(attempt))["digest"])

    def path(self, name: str) -> str:
        here = (expanduser(job_dir) for host, job_dir in known.places() if not host)
        found = [join(folder, "outputs", name) for folder in here]
        return next((path for path in found if isdir(path)), found[0] if found else "")

    def remove(self, name: str) -> None:
        self._clusters.of_each(lambda cluster: cluster.ask("remove_output", name=name))


def _place_of(attempt: Attempt) -> Place:
    return known.place_of_app(attempt.app_id) or known.place_of(attempt.document.get("cfg", {}))


def of_attempt(
    cluster: Cluster, attempt: Attempt, app: AppDef, there: Collection[str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Macro → output folder, and the variable that lists the folders of needs.

    Args:
        there: the names of the cluster's folders; None to ask the cluster.
    """
    names = read_outputs(attempt)
    if not names and not has_output(app):
        return {}, {}
    root = join(cluster.root, "outputs")
    folders = {output_macro(job): join(root, name) for job, name in names.items()}
    folders[output_macro()] = join(root, own_output(attempt))
    if not names:
        return folders, {}
    if there is None:
        there = set(cluster.ask("outputs")["outputs"])
    # A need that has not run yet makes its folder when it is submitted, before this attempt.
    made = {job: join(root, name) for job, name in names.items() if name in there}
    return folders, needs_variable(names, made)
