# A component file of another shape: several roles, words for the program behind `--`, a named resource,
# mounts as text, and a function of its own that is no component.
from launcher import specs
from launcher.specs.api import AppDef, Role
from launcher.specs.builders import parse_mounts


def _script(*lines: str) -> list[str]:
    return ["-c", "; ".join(lines)]


def pipeline(
    *words: str,
    readers: int = 2,
    h: str = "cpu.small",
    names: list[str] | None = None,
    mounts: list[str] | None = None,
) -> AppDef:
    """Readers and a writer.

    Args:
        words: for the readers
        readers: how many
        h: named resource of each
        names: what the writer writes
        mounts: mounts of all
    """
    reader = Role(
        name="reader",
        image="",
        num_replicas=readers,
        entrypoint="sh",
        args=[*_script('echo "$@"'), "sh", specs.macros.replica_id, *words],
        resource=specs.named_resources[h],
        mounts=parse_mounts(mounts or []),
    )
    writer = Role("writer", "", entrypoint="sh", args=_script(*(f"echo {name}" for name in names or [])))
    return AppDef("pipeline", [reader, writer], metadata={"team": "data"})
