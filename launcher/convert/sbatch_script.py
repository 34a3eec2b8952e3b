"""Split an sbatch script into its options as sbatch reads them, its interpreter and its commands."""

from __future__ import annotations

import os
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from launcher.convert.draft import masked
from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.jobfile.text.document import Source
from launcher.schedulers.slurm.options import KNOWN

_MARK = re.compile(r"#SBATCH(?=\s)")
_HERE = re.compile(r"""(?<!<)<<-?[ \t]*(?:'([^'\n]+)'|"([^"\n]+)"|\\?([A-Za-z_]\w*))""")
_LETTERS = """
    A=account a=array B=extra-node-info b=begin C=constraint c=cpus-per-task D=chdir d=dependency e=error
    F=nodefile G=gpus H=hold h=help i=input J=job-name k=no-kill L=licenses M=clusters m=distribution N=nodes
    n=ntasks O=overcommit o=output p=partition Q=quiet q=qos S=core-spec s=oversubscribe t=time V=version
    v=verbose W=wait w=nodelist x=exclude
"""
SHORT = dict(pair.split("=") for pair in _LETTERS.split())
SHORT_OF_SRUN = SHORT | {
    "l": "label",
    "u": "unbuffered",
    "K": "kill-on-bad-exit",
    "E": "preserve-env",
    "r": "relative",
}
_ALONE = """
    contiguous exact exclusive get-user-env help hold ignore-pbs kill-on-bad-exit label multi-prog nice
    no-kill no-requeue overcommit overlap oversubscribe parsable preserve-env propagate pty quiet reboot
    requeue spread-job stepmgr test-only unbuffered usage use-min-nodes verbose version wait x11
"""
NO_VALUE = frozenset(_ALONE.split())
"""Options without a value, or with a value only after `=`."""


@dataclass(frozen=True, slots=True)
class Script:
    """The parts of an sbatch script.

    Attributes:
        options: long option → value, "" for one without a value; the last one counts.
        words: interpreter and its options.
        body: the text without `#!` and the lines of options.
        ignored: option lines below the first command, which sbatch ignores.
    """

    options: Mapping[str, str]
    words: tuple[str, ...]
    body: str
    ignored: tuple[str, ...] = ()


def read(source: Source) -> Script:
    """Split a script. Raises LauncherError for an option line that sbatch cannot read either."""
    options: dict[str, str] = {}
    body, ignored, is_over = [], [], False
    words: tuple[str, ...] = ("bash",)
    for number, line in enumerate(source.text.replace("\r\n", "\n").split("\n"), 1):
        if number == 1 and line.startswith("#!"):
            words = _interpreter(line)
        elif _MARK.match(line) and is_over:
            ignored.append(line)
        elif _MARK.match(line):
            options |= _options(line[len("#SBATCH") :], f"{source.file}:{number}")
        else:
            is_over = is_over or bool(line.strip() and not line.lstrip().startswith("#"))
            body.append(line)
    return Script(options, words, "\n".join(body).strip("\n") + "\n", tuple(ignored))


def _interpreter(line: str) -> tuple[str, ...]:
    words = line[2:].split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S"]
    return (os.path.basename(words[0]), *words[1:]) if words else ("bash",)


def _options(text: str, place: str) -> dict[str, str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise LauncherError(f"{place}: the options cannot be read: {str(error).lower()}") from None
    if words[:1] in (["hetjob"], ["packjob"]) or ":" in words:
        hint = "write a job file for each part, with `needs` between them"
        raise LauncherError(f"{place}: heterogeneous jobs have no job file", hint=hint)
    return dict(pairs(words))


def here_documents(body: str) -> Iterator[tuple[int, int, str]]:
    """Yield begin and end of each here-document, and the mark that ends it, which is its last line."""
    lines = [f"{line}\n" for line in body.split("\n")]
    begins = [0, *accumulate(map(len, lines))]
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip("\t\n"), []).append(number)
    number = 0
    while number < len(lines):
        number += 1
        for mark in map("".join, _HERE.findall(lines[number - 1])):
            ends = places.get(mark, [])
            index = bisect_left(ends, number)
            if index < len(ends):  # `1 <<x` is arithmetic: no line ends it
                end = ends[index] + 1
                yield begins[number], begins[end], mark
                number = end


def pairs(words: list[str], short: Mapping[str, str] = SHORT) -> Iterator[tuple[str, str]]:
    """Yield long name and value of each option, up to the first word that is no option."""
    left = iter(words)
    for word in left:
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            if name not in KNOWN and len(found := [each for each in KNOWN if each.startswith(name)]) == 1:
                name = found[0]
        elif word.startswith("-") and len(word) > 1:
            name, value = short.get(word[1], word[1]), word[2:]
            sign = value
        else:
            return
        yield name, value if sign or name in NO_VALUE else next(left, "")


def mebibytes(text: str) -> int:
    """MiB of an amount of memory as Slurm writes it: "4G" → 4096; 0 for all, or for other text."""
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.upper())
    if found is None:
        return 0
    return -(-int(found[1]) * {"K": 1, "": 1 << 10, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}[found[2]] >> 10)


def written(name: str, value: str) -> str:
    """Return an option as users write it, without the values of secrets."""
    return masked(f"--{name}{value and '='}{value}")
