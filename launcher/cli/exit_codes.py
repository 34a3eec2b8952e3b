"""The meanings of the exit codes of all commands; `docs/exit-codes.md` has the same words, and advice."""

from __future__ import annotations

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "an error: of an engine, of files, or a job could not be applied; or `fmt --check` found "
    "a file to format, or `grep` no line that matches",
    2: "changes are pending (`plan --detailed-exitcode`, `synced`)",
    3: "blocked: approval is needed, a job is protected, the plan exceeds its budget, or `--fail-on` matched",
    4: "a saved plan is stale, expired, edited, or for another engine; or the plan is not the "
    "one of `--expect-digest`",
    5: "applied, but an app did not succeed, or did not end in time (`apply --wait`, `wait`, "
    "`run`, `status --watch`)",
    6: "a job file is invalid; with `convert --strict`, something of the file has no place",
    7: "another apply held the lock for too long",
    8: "a link of an attempt is wrong, or missing with --strict (`verify`)",
    64: "wrong usage: an unknown command, option, scheduler, component or run option",
    130: "interrupted by Ctrl-C",
    141: "the reader of the output has exited, as in `launcher list | head -1`",
    143: "ended by SIGTERM",
}
