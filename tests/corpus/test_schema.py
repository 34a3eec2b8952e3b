"""The committed schema on the corpus, through jsonschema and through check-jsonschema: one verdict with the
models, but for warnings, and for the rules that a schema cannot say, which are listed here."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.jobfile.diagnostic import WARNINGS
from launcher.jobfile.text.document import Document, Source, source_of
from launcher.jobfile.text.parse import parse
from tests.corpus.words import BAD, FOLDER, GOOD, compiled, expected, name_of

SCHEMA = FOLDER.parents[1] / "schemas" / "job-v1.schema.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))

BEYOND: Mapping[str, tuple[str, ...]] = {
    "what the text says that its values do not: a key twice, a tag, keys that are no text, `<<` of text": (
        "toml/duplicate-key.launcher.toml",
        "yaml/custom-tag.launcher.yaml",
        "yaml/duplicate-key-quoted.launcher.yaml",
        "yaml/duplicate-key.launcher.yaml",
        "yaml/duplicate-merge.launcher.yaml",
        "yaml/duplicate-role.launcher.yaml",
        "yaml/duplicate-top-level.launcher.yaml",
        "yaml/exclamation-read-as-tag.launcher.yaml",
        "yaml/list-as-key.launcher.yaml",
        "yaml/merge-of-list-of-text.launcher.yaml",
        "yaml/merge-of-text.launcher.yaml",
        "yaml/null-as-key.launcher.yaml",
        "yaml/number-as-key.launcher.yaml",
        "yaml/true-as-key.launcher.yaml",
    ),
    "what stands in another file, launcher.toml": (
        "project/bad-name/job.launcher.yaml",
        "project/lifecycle/job.launcher.yaml",
        "project/notify/job.launcher.yaml",
        "project/number/job.launcher.yaml",
        "project/option-type/job.launcher.yaml",
        "project/syntax/job.launcher.yaml",
        "project/unknown-field/job.launcher.yaml",
        "project/unknown-option/job.launcher.yaml",
        "project/unknown-scheduler/job.launcher.yaml",
        "project/unknown-target/job.launcher.yaml",
        "targets/list.launcher.yaml",
    ),
    "what is on the disk: the workspace": (
        "fields/workspace-is-a-file.launcher.yaml",
        "fields/workspace-is-not-there.launcher.yaml",
        "fields/workspace-project-is-not-there.launcher.yaml",
    ),
    "what is on the disk: the inputs": (
        "fields/input-is-not-there.launcher.yaml",
        "fields/input-leaves-the-repository.launcher.yaml",
    ),
    "where the projects of a workspace go": (
        "fields/workspace-project-escapes.launcher.yaml",
        "fields/workspace-project-twice.launcher.yaml",
        "fields/workspace-projects-in-one-place.launcher.yaml",
    ),
    "which schedulers there are here, and their options": (
        "fields/unknown-scheduler-option.launcher.yaml",
        "fields/unknown-scheduler.launcher.yaml",
        "targets/unknown-scheduler.launcher.yaml",
    ),
    "roles that wait for each other, and what a probe is made of": (
        "order/circle.launcher.yaml",
        "order/host-in-a-name.launcher.yaml",
        "order/host-of-no-role.launcher.yaml",
        "order/http-without-port.launcher.yaml",
        "order/itself.launcher.yaml",
        "order/only-services.launcher.yaml",
        "order/probe-of-nothing.launcher.yaml",
        "order/probe-of-two-kinds.launcher.yaml",
        "order/probe-too-often.launcher.yaml",
        "order/ready-without-a-probe.launcher.yaml",
        "order/succeeded-service.launcher.yaml",
        "order/timeout-before-the-second-probe.launcher.yaml",
        "order/unknown-role-in-a-list.launcher.yaml",
        "order/unknown-role-in-a-mapping.launcher.yaml",
    ),
    "the program of a role: one": (
        "commands/run-and-entrypoint.launcher.yaml",
        "commands/run-names-another-shell.launcher.yaml",
    ),
    "what a scheduler takes and refuses": (
        "schedulers/component-makes-no-image.launcher.yaml",
        "schedulers/docker-amounts-and-mounts.launcher.yaml",
        "schedulers/docker-fixed-port-of-two-replicas.launcher.yaml",
        "schedulers/docker-host-without-a-network.launcher.yaml",
        "schedulers/docker-image-with-a-blank.launcher.yaml",
        "schedulers/docker-without-image.launcher.yaml",
        "schedulers/local-secret-path.launcher.yaml",
        "schedulers/only-in-a-target.launcher.yaml",
        "schedulers/slurm-options-of-sbatch.launcher.yaml",
        "schedulers/slurm-roles.launcher.yaml",
    ),
    "which components there are, their arguments, and what they make of them": (
        "components/another-each-time.launcher.yaml",
        "components/arguments.launcher.yaml",
        "components/it-fails.launcher.yaml",
        "components/it-makes-what-cannot-run.launcher.yaml",
        "components/mount-of-no-type.launcher.yaml",
        "components/no-such-file.launcher.yaml",
        "components/unknown-function.launcher.yaml",
        "components/unknown.launcher.yaml",
        "components/without-types.launcher.yaml",
        "components/wrong-in-a-target.launcher.yaml",
    ),
    "which named resources there are here": ("resources/unknown-name.launcher.yaml",),
    "which names are declared: variables, axes, targets": (
        "matrix/exclude-unknown-axis.launcher.yaml",
        "matrix/include-misspelt-axis.launcher.yaml",
        "matrix/in-toml.launcher.toml",
        "matrix/pattern-of-an-unknown-axis.launcher.yaml",
        "matrix/pattern-without-matrix.launcher.yaml",
        "needs/no-variable.launcher.yaml",
        "needs/removed-in-a-target.launcher.yaml",
        "names/target-default.launcher.yaml",
        "commands/unknown-reference-in-run.launcher.yaml",
        "references/forgotten-var-prefix.launcher.yaml",
        "references/in-block-text.launcher.yaml",
        "references/in-mount-text.launcher.yaml",
        "references/misspelt-run-macro.launcher.yaml",
        "references/nested.launcher.yaml",
        "references/no-matrix.launcher.yaml",
        "references/no-vars-at-all.launcher.yaml",
        "references/third-of-three-in-a-text.launcher.yaml",
        "references/unknown-axis.launcher.yaml",
        "references/unknown-git-fact.launcher.yaml",
        "references/unknown-in-target-only.launcher.yaml",
        "references/unknown-job-fact.launcher.yaml",
        "references/unknown-variable.launcher.yaml",
        "references/upper-case.launcher.yaml",
        "targets/null-removes-nothing.launcher.yaml",
        "targets/reference-nobody-knows.launcher.yaml",
        "targets/unknown-variable.launcher.yaml",
    ),
    "which jobs the project has, which need each other, and what may not stand twice": (
        "needs/itself.launcher.yaml",
        "needs/own-matrix.launcher.yaml",
        "needs/twice.launcher.yaml",
    ),
    "where a reference may stand, and when its value is known": (
        "needs/a-run-macro.launcher.yaml",
        "phases/job-dir-in-timeout.launcher.yaml",
        "phases/old-spelling-in-image.launcher.yaml",
        "phases/run-macro-in-cfg.launcher.yaml",
        "phases/run-macro-in-count.launcher.yaml",
        "phases/run-macro-in-description.launcher.yaml",
        "phases/run-macro-in-image.launcher.yaml",
        "phases/run-macro-in-mount-destination.launcher.yaml",
        "phases/run-macro-in-project.launcher.yaml",
        "phases/run-macro-in-resource.launcher.yaml",
        "phases/run-macro-in-retry-policy.launcher.yaml",
        "phases/run-macro-in-timeout.launcher.yaml",
        "phases/variable-from-variable.launcher.yaml",
        "references/in-key.launcher.yaml",
        "secrets/run-macro-inside.launcher.yaml",
    ),
    "what a reference stands for: its type, its range": (
        "matrix/of-another-type.launcher.yaml",
        "matrix/wrong-in-one-combination.launcher.yaml",
        "references/typed-in-toml.launcher.toml",
        "targets/default-of-other-type.launcher.yaml",
        "targets/default-out-of-range.launcher.yaml",
        "variables/in-text-of-a-count.launcher.yaml",
        "variables/text-used-as-count.launcher.yaml",
        "variables/too-large-where-used.launcher.yaml",
        "variables/wrong-variant-where-used.launcher.yaml",
    ),
    "what two fields say together": (
        "fields/two-timeouts.launcher.yaml",
        "matrix/group-without-pattern.launcher.yaml",
        "matrix/include-without-pattern.launcher.yaml",
        "matrix/pattern-without-group.launcher.toml",
        "mounts/same-destination.launcher.yaml",
        "ranges/min-over-default-num.launcher.yaml",
        "ranges/min-over-num.launcher.yaml",
        "resources/gpu-type.launcher.toml",
        "resources/memory-twice.launcher.yaml",
        "targets/only-in-sum-wrong.launcher.yaml",
        "variables/choice-out-of-range.launcher.yaml",
        "variables/empty-choices.launcher.yaml",
        "variables/default-below-min.launcher.yaml",
        "variables/default-no-choice.launcher.yaml",
        "variables/empty-range.launcher.yaml",
    ),
    "what launcher.toml has of a variable": ("variables/no-type.launcher.yaml",),
    "what targets and `defaults` leave of a role": (
        "defaults/nothing-to-remove.launcher.yaml",
        "fields/missing-entrypoint.launcher.yaml",
        "targets/new-role-without-entrypoint.launcher.yaml",
        "targets/removes-entrypoint.launcher.yaml",
        "toml/role-without-entrypoint.launcher.toml",
        "types/env-value-empty.launcher.yaml",
        "types/replicas-null.launcher.yaml",
    ),
    "what the matrix makes": (
        "matrix/a-billion.launcher.yaml",
        "matrix/exclude-everything.launcher.yaml",
        "matrix/exclude-nothing.launcher.yaml",
        "matrix/group-is-a-job.launcher.yaml",
        "matrix/include-half.launcher.yaml",
        "matrix/include-lacks-a-value.launcher.yaml",
        "matrix/include-name.launcher.yaml",
        "matrix/include-of-excluded.launcher.yaml",
        "matrix/include-of-no-job.launcher.yaml",
        "matrix/pattern-of-one-name.launcher.yaml",
        "matrix/range-backwards.launcher.yaml",
        "matrix/too-many-before-exclude.launcher.yaml",
        "matrix/too-many.launcher.yaml",
        "matrix/value-twice.launcher.yaml",
        "names/axis-with-space.launcher.yaml",
    ),
    "what a range counts": ("matrix/range-without-step.launcher.yaml",),
    "what is inside a text: amounts, the parts of a mount, NUL": (
        "encodings/nul-escape.launcher.yaml",
        "lifecycle/timeout-part-of-a-second.launcher.yaml",
        "mounts/home-of-another.launcher.yaml",
        "mounts/text-two-mounts.launcher.yaml",
        "mounts/text-unknown-option.launcher.yaml",
        "ranges/retry-delay-of-an-hour.launcher.yaml",
        "ranges/timeout-of-a-century.launcher.yaml",
        "ranges/timeout-zero-text.launcher.yaml",
        "resources/memory-zero.launcher.yaml",
    ),
    "that 2.0 is no whole number, that NaN is none at all, that `null` is no value of free fields": (
        "toml/not-a-number.launcher.toml",
        "types/metadata-null.launcher.yaml",
        "types/replicas-float.launcher.yaml",
    ),
    "that a name ends where it ends: `$` stands before a last line end too, for Python's `re`": (
        "names/trailing-newline.launcher.yaml",
    ),
}

# Files that check-jsonschema reads otherwise than we do: good ones that it refuses (a mark before TOML),
# wrong ones that it takes (keys and tags that we do without), one that Python lets pass and it does not.
OTHER_READING: Mapping[str, tuple[str, ...]] = {
    "good": ("good/byte-order-mark-toml.launcher.toml",),
    "takes": (
        "bad/encodings/lone-surrogate.launcher.yaml",
        "bad/yaml/directive.launcher.yaml",
        "bad/yaml/int-tag.launcher.yaml",
        "bad/yaml/list-as-key.launcher.yaml",
        "bad/yaml/null-as-key.launcher.yaml",
        "bad/yaml/number-as-key.launcher.yaml",
        "bad/yaml/true-as-key.launcher.yaml",
    ),
    "refuses": ("bad/names/trailing-newline.launcher.yaml",),
}


def read(path: Path) -> Document | None:
    """Return the value of a file as we read it; None for a file that is no text or has no value."""
    source = source_of(str(path), path.read_bytes())
    document = parse(source) if isinstance(source, Source) else None
    return document if document is not None and document.value is not None else None


def is_valid(path: Path) -> bool | None:
    """Return whether the schema accepts a file; None for a file without a value."""
    document = read(path)
    return VALIDATOR.is_valid(as_json(document.value)) if document is not None else None


def as_json(value: Any) -> Any:
    """Return the value with dates and times of TOML as text, as JSON tools see them."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return value if isinstance(value, str | int | float) or value is None else str(value)


def test_every_good_file_is_valid() -> None:
    assert [name_of(path) for path in GOOD if not is_valid(path)] == []


@pytest.mark.slow
def test_each_bad_file_that_the_schema_accepts_is_listed_below_its_rule() -> None:
    warned = {name_of(path) for path in BAD if {each.code for each in expected(path)} <= WARNINGS}
    passed = {name_of(path) for path in BAD if is_valid(path)}
    assert warned - passed == set(), "a file with warnings alone is valid"
    passed -= warned
    listed = [f"bad/{name}" for names in BEYOND.values() for name in names]
    assert passed - {*listed} == set(), "list these in BEYOND, below the rule that a schema cannot say"
    assert {*listed} - passed == set(), (
        "take these out of BEYOND: the schema refuses them, or they have warnings alone"
    )
    assert len(listed) == len(passed), "BEYOND lists a file twice"


def test_the_models_refuse_every_file_that_the_schema_refuses() -> None:
    for path in BAD:
        assert is_valid(path) is not False or compiled(path).errors


@pytest.fixture(scope="module")
def refused() -> set[str]:
    """The files of the corpus that check-jsonschema refuses: wrong by the schema, or unreadable."""
    paths = [path for path in (*GOOD, *BAD) if is_for_the_tool(path)]
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--schemafile",
        str(SCHEMA),
        "-o",
        "json",
        *map(str, paths),
    ]
    output = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    named = {found["filename"] for kind in ("errors", "parse_errors") for found in output[kind]}
    return {name_of(Path(name)) for name in named}


@pytest.mark.slow
def test_check_jsonschema_accepts_every_good_file(refused: set[str]) -> None:
    assert refused & {name_of(path) for path in GOOD} == set(OTHER_READING["good"])


@pytest.mark.slow
def test_check_jsonschema_agrees_with_the_schema_on_every_wrong_file(refused: set[str]) -> None:
    names = {name_of(path): path for path in BAD if is_for_the_tool(path)}
    ours = {name for name, path in names.items() if is_valid(path) is not True or has_problems(path)}
    theirs = refused & names.keys()
    assert ours - theirs == set(OTHER_READING["takes"])
    assert theirs - ours == set(OTHER_READING["refuses"])


def is_for_the_tool(path: Path) -> bool:
    """Return whether check-jsonschema can judge a file.

    It knows no limits, ends in a traceback at bytes that are not UTF-8, and reads the TOML of its Python.
    """
    return (
        path.parent.name != "limits"
        and not path.name.startswith("newer-than")
        and isinstance(source_of(str(path), path.read_bytes()), Source)
    )


def has_problems(path: Path) -> bool:
    """Return whether the text itself is wrong: a key twice, a tag, bytes that are no text."""
    document = read(path)
    return document is not None and bool(document.problems)
