"""The linter says, from the source alone, why a function cannot be a component."""

import ast

import pytest

from launcher.components import (
    ComponentFnVisitor,
    ComponentFunctionValidator,
    DocstringValidator,
    LinterMessage,
    validate,
)


@pytest.fixture
def lint(tmp_path):
    def run(source, function="f", validators=None):
        path = tmp_path / "component.py"
        path.write_text(source)
        return validate(str(path), function, validators)

    return run


def texts(messages):
    return [message.description for message in messages]


ACCEPTED = [
    *("a: int", "a: Anything", "a: module.Anything", "a: Optional[str]", "a: typing.Optional[List[int]]"),
    *("a: int | None", "a: None | dict[str, str]", "a: Dict[str, int]", "a: tuple[int, ...]"),
    *("a: 'Optional[int]'", "*a: str", "*, a: str", "a, /"),
]


@pytest.mark.parametrize("argument", ACCEPTED)
def test_argument_types_that_can_be_read_from_text_are_accepted(lint, argument):
    assert lint(f"def f({argument}) -> AppDef: ...") == []


@pytest.mark.parametrize(("argument", "output"), [
    *((argument, "Missing type annotation") for argument in ("a", "*a", "*, a")),
    ("a: Dict[List[int], str]", "Non-primitive key type 'List[int]'"),
    ("a: dict[str, list[int]]", "Non-primitive value type 'list[int]'"),
    ("a: List[List[int]]", "Non-primitive element type 'List[int]'"),
    ("a: tuple[int, list[int]]", "Non-primitive element type 'list[int]'"),
    ("a: Set[int]", "Unsupported container type 'Set'"),
    ("a: Optional[Optional[int]]", "Unsupported container type 'Optional'"),
    ("a: int | str", "Unsupported argument type 'int | str'"),
    ("a: 3", "Unsupported argument type '3'"),
])  # fmt: skip
def test_argument_types_that_cannot_be_read_from_text_are_reported(lint, argument, output):
    assert texts(lint(f"def f({argument}) -> AppDef: ...")) == [f"{output} for argument 'a' in function 'f'"]


@pytest.mark.parametrize("returns", ["AppDef", "specs.AppDef", "'AppDef'", "'specs.AppDef'"])
def test_a_component_returns_an_app(lint, returns):
    assert lint(f"def f() -> {returns}: ...") == []


UNKNOWN = "Function: f missing return annotation or has unknown annotations. "
UNKNOWN += "Supported return annotation: AppDef"
UNDESCRIBED = 'def f(a: int, b: int) -> AppDef:\n    """Runs.\n\n    Args:\n        a: one\n    """'


@pytest.mark.parametrize(("source", "rules", "found"), [
    ("def f(): ...", None, [UNKNOWN]),
    ("def f() -> None: ...", None, [UNKNOWN]),
    ("def f() -> int: ...", None,
        ["Function: f has incorrect return annotation, supported annotation: AppDef"]),
    ("def g(): ...", None, ["Function f not found"]),
    ("x = " + "-" * 30_000 + "1\n", None, ["an expression is nested too deeply"]),
    (UNDESCRIBED, [DocstringValidator()], ["Argument 'b' of function 'f' is not described"]),
    ("def f(a): ...", [], []),
], ids=["no return annotation", "no app in the annotation", "a return of another type", "a missing function",
    "a file that fills the stack of the parser", "a rule for descriptions", "no rules"])  # fmt: skip
def test_each_fault_of_a_function_is_reported_in_words(lint, source, rules, found):
    assert texts(lint(source, validators=rules)) == found


def test_a_message_has_the_line_and_column_of_the_argument(lint):
    (found,) = lint("\n\ndef f(\n    a,\n) -> AppDef: ...")
    assert found == LinterMessage("ArgTypeValidator", found.description, 4, 4, "error")


def test_a_file_that_is_no_python_has_one_message(lint):
    (found,) = lint("def f(:\n")
    assert (found.description, found.line, found.char) == ("invalid syntax", 1, 6)


class NoLambdas(ComponentFunctionValidator):
    def validate(self, app_specs_func_def):
        found = [node for node in ast.walk(app_specs_func_def) if isinstance(node, ast.Lambda)]
        return [self.message("no lambdas", node) for node in found]


def test_a_custom_rule_adds_its_messages(lint):
    source = "def f(a) -> AppDef:\n    return (lambda: a)()\n"
    assert lint(source, validators=[NoLambdas()]) == [LinterMessage("NoLambdas", "no lambdas", 2, 12)]


def test_a_visitor_looks_at_one_function_of_a_tree():
    visitor = ComponentFnVisitor("f", None)
    visitor.visit(ast.parse("def g(a): ...\ndef f(a) -> AppDef: ..."))
    assert visitor.visited_function
    assert texts(visitor.linter_errors) == ["Missing type annotation for argument 'a' in function 'f'"]


@pytest.mark.parametrize("source", [
    "x = {minus}1\ndef f(a: int) -> AppDef: ...", "def f(a: '{minus}1') -> AppDef: ...",
    "def f(a: x{plus}) -> AppDef: ...", "def f(a: str = x{plus}) -> AppDef: ...",
    "def f(a: x{dots}) -> AppDef: ...", "def f(a: '{open}1{close}') -> AppDef: ...",
    "def f(a: int) -> {open}1{close}: ...", "def f(a: {union}int) -> AppDef: ...",
])  # fmt: skip
def test_deep_expressions_end_in_a_message_at_most(lint, source):
    parts = {"minus": "-", "plus": "+x", "dots": ".x", "open": "[", "close": "]", "union": "None | "}
    for size in (60, 90, 150, 300, 600, 900, 2_000, 30_000):
        found = lint(source.format(**{name: part * size for name, part in parts.items()}))
        assert all(isinstance(message, LinterMessage) and message.description for message in found)
