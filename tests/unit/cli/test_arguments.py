"""Arguments are read as argparse reads them, and mistakes in them are explained."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given, strategies as st

from launcher.cli.arguments import Arguments, HelpRequested, count, key_value
from launcher.cli.main import command
from launcher.errors import UsageError


def declare(parser):
    parser.add_argument("files", metavar="FILE", nargs="*")
    group = parser.add_argument_group("More")
    group.add_argument("-n", "--number", type=count, default=50)
    group.add_argument("--var", action="append", default=[], type=key_value)
    group.add_argument("--kind", choices=("alpha", "beta"), default="alpha")
    group.add_argument("-f", "--follow", action="store_true")
    group.add_argument("-a", action="store_true")


def declare_one(parser):
    parser.add_argument("app", metavar="APP")
    parser.add_argument("more", nargs="?")
    parser.add_argument("--json", action="store_true")


class Refused(Exception):
    """A command line that argparse does not take."""


class Standard(argparse.ArgumentParser):
    """The parser of argparse without abbreviations."""

    def __init__(self):
        super().__init__(allow_abbrev=False)

    def print_help(self, file=None):
        pass

    def error(self, message):
        raise Refused(message)

    def exit(self, status=0, message=None):
        raise Refused(message)


def parsed(declared, words):
    parser = Arguments("launcher test")
    declared(parser)
    return vars(parser.parse(words))


PLAIN = ["x", "y.yaml", "7", "-n", "--number", "--number=3", "--var", "k=v", "--var=k=v=w", "--kind"]
ODD = ["", "beta", "-", "-x", "-1", "-n5", "-n=5", "-fn", "-fa", "-af", "-fan3", "--kind=c", "--kind="]
ODD += ["--follow=1", "--numb", "--help", "-h", "-f", "--json", "-x y"]
ODD += ["--var=k=a b", "--kind=a b", "--nope=a b", "-n=5 6", "-n5 6", "-x=a b", "--var= b", "-f b"]
WORDS = st.sampled_from(PLAIN + ODD)


@pytest.mark.parametrize("declared", [declare, declare_one])
@given(words=st.lists(WORDS, max_size=5))
def test_every_command_line_is_read_as_argparse_reads_it(declared, words):
    """Words behind `--` are excepted: argparse looks for options there when it reads them again."""
    standard = Standard()
    declared(standard)
    try:
        expected = vars(standard.parse_intermixed_args(words))
    except Refused:
        with pytest.raises((UsageError, HelpRequested)):
            parsed(declared, words)
    else:
        assert parsed(declared, words) == {**expected, "help": False}


def test_options_may_stand_between_and_behind_files():
    assert parsed(declare, ["a", "-f", "b", "--", "-c"])["files"] == ["a", "b", "-c"]


@pytest.mark.parametrize(("words", "problem", "hint"), [
    (["--numbr", "3"], "--numbr is not an option of launcher test", "did you mean `--number`?"),
    (["-k"], "-k is not an option of launcher test", "did you mean `--kind`?"),
    (["-q"], "-q is not an option of launcher test", "see `launcher test --help`"),
    (["--kind", "alhpa"], "--kind: `alhpa` is not one of alpha, beta; did you mean `alpha`?", None),
    (["-number", "3"], "-number is not an option of launcher test", "did you mean `--number`?"),
    (["-n"], "-n/--number: expected one argument", None),
    (["-f=1"], "-f/--follow: ignored explicit argument '1'", None),
    (["-fx"], "-f/--follow: ignored explicit argument 'x'", None),
    (["--numb", "3"], "--numb is not an option of launcher test", "did you mean `--number`?"),
])  # fmt: skip
def test_an_error_names_the_argument_and_what_was_meant(words, problem, hint):
    with pytest.raises(UsageError) as caught:
        parsed(declare, words)
    assert str(caught.value) == problem
    assert caught.value.hint == (hint or "see `launcher test --help`")


def test_missing_words_and_surplus_words_are_refused():
    with pytest.raises(UsageError, match="the following arguments are required: APP"):
        parsed(declare_one, [])
    with pytest.raises(UsageError, match="unexpected argument `c`"):
        parsed(declare_one, ["a", "b", "c"])


@pytest.mark.parametrize("name", ["schema", "ci"])
def test_the_error_of_a_missing_word_names_the_words_to_choose_from(name):
    with pytest.raises(UsageError) as caught:
        parsed(command(name).add_arguments, [])
    parser = Arguments(f"launcher {name}")
    command(name).add_arguments(parser)
    (choices,) = (each.choices for each in parser.declared if each.choices and not each.is_option)
    assert all(choice in str(caught.value) for choice in choices)


def test_given_values_do_not_leak_into_the_next_line():
    parser = Arguments("launcher test")
    declare(parser)
    assert parser.parse(["--var", "a=1"]).var == [("a", "1")]
    assert parser.parse([]).var == []


def test_a_hidden_argument_is_not_in_the_help():
    from launcher.cli import completion
    from launcher.cli.arguments import help_text

    parser = Arguments("launcher completion")
    completion.add_arguments(parser)
    text = help_text(completion, parser)
    assert "SHELL" in text
    assert "--names" not in text
