"""The quick reader and argparse agree on every line that the quick one takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli.argument_types import count, key_value, one_of
from launcher.cli.arguments import Arguments
from launcher.cli.help import HelpRequested, Parser
from launcher.errors import UsageError


def declare(parser):
    parser.add_argument("files", metavar="FILE", nargs="*")
    group = parser.add_argument_group("More")
    group.add_argument("-n", "--number", type=count, default=50)
    group.add_argument("--var", action="append", default=[], type=key_value)
    group.add_argument("--kind", type=one_of("alpha", "beta"), choices=("alpha", "beta"), default="alpha")
    group.add_argument("-f", "--follow", action="store_true")


def declare_one(parser):
    parser.add_argument("app", metavar="APP")
    parser.add_argument("more", nargs="?")
    parser.add_argument("--json", action="store_true")


def quick(declared, words):
    arguments = Arguments()
    declared(arguments)
    return arguments.parse(words)


def thorough(declared, words):
    parser = Parser(prog="launcher test")
    declared(parser)
    return parser.parse_args(list(words))


PLAIN = ["x", "y.yaml", "7", "-n", "--number", "--number=3", "--var", "k=v", "--var=k=v=w", "--kind"]
ODD = [
    "",
    "beta",
    "-",
    "--",
    "-x",
    "-1",
    "-n5",
    "-fn",
    "--kind=c",
    "--follow=1",
    "--numb",
    "--help",
    "-f",
    "--json",
]
WORDS = st.sampled_from(PLAIN + ODD)


@pytest.mark.parametrize("declared", [declare, declare_one])
@given(words=st.lists(WORDS, max_size=5))
def test_what_the_quick_reader_takes_argparse_reads_the_same(declared, words):
    got = quick(declared, words)
    if got is not None:
        assert vars(got) == vars(thorough(declared, words))


@pytest.mark.parametrize(
    "words", [[], ["a.yaml"], ["-n", "3", "a"], ["a", "--var", "x=1", "b", "--var=y=", "-f"], ["--kind=beta"]]
)
def test_everyday_lines_are_read_without_argparse(words):
    assert quick(declare, words) is not None


@pytest.mark.parametrize(
    "words",
    [["--help"], ["-n"], ["-n", "x"], ["--nope"], ["--kind", "c"], ["-fx"], ["--follow=1"], ["--", "a"]],
)
def test_whatever_is_out_of_the_ordinary_is_left_to_argparse(words):
    assert quick(declare, words) is None


def test_given_values_do_not_leak_into_the_next_line():
    arguments = Arguments()
    declare(arguments)
    assert arguments.parse(["--var", "a=1"]).var == [("a", "1")]
    assert arguments.parse([]).var == []


def test_options_may_stand_between_and_behind_files():
    assert vars(thorough(declare, ["a", "-f", "b", "--", "-c"]))["files"] == ["a", "b", "-c"]


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        thorough(declare, ["--numbr", "3"])
    assert str(caught.value) == "--numbr is not an option of launcher test"
    assert caught.value.hint == "did you mean `--number`?"


def test_a_wrong_value_names_the_nearest_and_the_option():
    with pytest.raises(
        UsageError, match=r"--kind: `alhpa` is not one of alpha, beta; did you mean `alpha`\?"
    ):
        thorough(declare, ["--kind", "alhpa"])


def test_abbreviated_options_are_refused():
    with pytest.raises(UsageError):
        thorough(declare, ["--numb", "3"])


def test_too_many_words_are_refused():
    with pytest.raises(UsageError, match="unexpected argument `c`"):
        thorough(declare_one, ["a", "b", "c"])


def test_help_is_a_text():
    with pytest.raises(HelpRequested) as caught:
        thorough(declare, ["-h"])
    assert "Usage: launcher test" in caught.value.text
