"""Description and argument texts come out of docstrings as people write them."""

from launcher.components.signature import parse_docstring


def test_google_style_docstrings_give_description_and_arguments():
    description, texts = parse_docstring(
        """Trains a model.

        On one node or more.

        Args:
            lr (float): learning rate,
                as a fraction
            *args: the rest: all of it

        Returns:
            An app.
        """
    )
    assert description == "Trains a model.\n\nOn one node or more."
    assert texts == {"lr": "learning rate, as a fraction", "args": "the rest: all of it"}


def test_rest_style_docstrings_give_description_and_arguments():
    description, texts = parse_docstring(
        "Trains.\n\n:param lr: learning\n    rate\n:param int n: number\n:returns: app"
    )
    assert description == "Trains."
    assert texts == {"lr": "learning rate", "n": "number"}


def test_a_word_with_a_colon_in_the_description_is_no_section():
    description, _ = parse_docstring("Runs it.\n\nUsage:\n\n    launcher run x\n\nArgs:\n    a: b")
    assert description == "Runs it.\n\nUsage:\n\n    launcher run x"


def test_a_missing_docstring_gives_no_description_and_no_arguments():
    assert parse_docstring(None) == ("", {})
