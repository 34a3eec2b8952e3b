"""Component files as text: each is read and parsed once, checked by rules, and never executed."""

from __future__ import annotations

import ast
import os
import re
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache

from launcher.components.signature import from_value, parse_docstring
from launcher.dataclass import dataclass

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ComponentFile:
    """A file as parsed.

    Attributes:
        functions: the top-level functions, also below `if`, `try` and `with`, in the order of the file; of
            several with one name, the last.
        error: the syntax error of the file; then there are no functions.
    """

    path: str
    text: str
    functions: dict[str, Function]
    imports: tuple[ast.Import | ast.ImportFrom, ...] = ()
    error: SyntaxError | None = None


def locate(path: str, folder: str | None = None) -> str:
    """The absolute path of a component file: below `folder`, else as it is, else in the installed package.

    Raises FileNotFoundError.
    """
    expanded = os.path.expanduser(path)
    for base in (folder or os.getcwd(), PACKAGE):
        candidate = os.path.normpath(os.path.join(base, expanded))
        if os.path.isfile(candidate):
            return candidate
    raise FileNotFoundError(path)


def read_conf_file(path: str) -> str:
    """The text of a file on disk, else of one of the installed package. Raises FileNotFoundError."""
    with open(locate(path), encoding="utf-8-sig") as file:
        return file.read()


def read_component_file(path: str) -> ComponentFile:
    """Parse a file, once as long as it does not change. Raises OSError."""
    status = os.stat(path)
    return _read(os.path.abspath(path), status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=256)
def _read(path: str, *_version: int) -> ComponentFile:
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        return ComponentFile(path, "", {}, (), SyntaxError(f"not UTF-8: {error}"))
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        return ComponentFile(path, text, {}, (), error)
    except ValueError as error:  # a null byte, before Python 3.12
        return ComponentFile(path, text, {}, (), SyntaxError(str(error)))
    except (MemoryError, RecursionError):  # the parser's stack overflowed, which raises either error
        return ComponentFile(path, text, {}, (), SyntaxError("an expression is nested too deeply"))
    functions = {node.name: node for node in _statements(tree.body) if isinstance(node, Function)}
    imports = tuple(node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
    return ComponentFile(path, text, functions, imports)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import of a module executes, also below `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and {"__name__", "TYPE_CHECKING"} & {*_names(node.test)}:
            yield from _statements(node.orelse)  # scripts and type checkers alone read the rest
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for each in getattr(node, part, ()):
                    yield from _statements(each.body if isinstance(each, ast.ExceptHandler) else [each])


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, (ast.Name, ast.Attribute)):
            yield each.id if isinstance(each, ast.Name) else each.attr


_MAPPINGS = {"Dict", "dict"}
_LISTS = {"List", "list"}
_TUPLES = {"Tuple", "tuple"}


@dataclass(frozen=True, slots=True)
class LinterMessage:
    """A problem of a component, and its place: `line` counts from 1, `char` from 0."""

    name: str
    description: str
    line: int
    char: int
    severity: str = "error"


class ComponentFunctionValidator(ABC):
    """One rule of components."""

    @abstractmethod
    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        """Return the function's violations of the rule."""

    def message(self, description: str, node: ast.AST) -> LinterMessage:
        """Return a message at the place of `node`."""
        line, char = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        return LinterMessage(type(self).__name__, description, line, char)


class ArgTypeValidator(ComponentFunctionValidator):
    """Every argument has a type that can be read from text."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        found = []
        for argument in _arguments(app_specs_func_def):
            wrong = _wrong_type(argument)
            if wrong:
                where = f"for argument '{argument.arg}' in function '{app_specs_func_def.name}'"
                found.append(self.message(f"{wrong} {where}", argument))
        return found


class DefaultValidator(ComponentFunctionValidator):
    """A literal default has the type of its argument. None is always allowed."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        found = []
        for argument, default in _defaults(app_specs_func_def):
            wrong = _wrong_default(argument, default)
            if wrong:
                where = f"for argument '{argument.arg}' in function '{app_specs_func_def.name}'"
                found.append(self.message(f"Wrong default {where}: {wrong}", default))
        return found


class ReturnTypeValidator(ComponentFunctionValidator):
    """The function is annotated to return an AppDef."""

    def __init__(self, supported_return_type: str = "AppDef") -> None:
        self._supported = supported_return_type

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        name = f"Function: {app_specs_func_def.name}"
        returns = _unquoted(app_specs_func_def.returns)
        if not isinstance(returns, (ast.Name, ast.Attribute)):
            text = f"{name} missing return annotation or has unknown annotations. "
            return [self.message(f"{text}Supported return annotation: {self._supported}", app_specs_func_def)]
        if _last_name(returns) != self._supported:
            text = f"{name} has incorrect return annotation, supported annotation: {self._supported}"
            return [self.message(text, app_specs_func_def)]
        return []


class DocstringValidator(ComponentFunctionValidator):
    """The function and each of its arguments have a description. This rule is off unless it is named."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        name = app_specs_func_def.name
        docstring = ast.get_docstring(app_specs_func_def)
        if not docstring:
            return [self.message(f"Function '{name}' has no docstring", app_specs_func_def)]
        _, texts = parse_docstring(docstring)
        return [
            self.message(f"Argument '{argument.arg}' of function '{name}' is not described", argument)
            for argument in _arguments(app_specs_func_def)
            if not texts.get(argument.arg)
        ]


def get_validators() -> list[ComponentFunctionValidator]:
    """The rules for every component."""
    return [ArgTypeValidator(), DefaultValidator(), ReturnTypeValidator()]


class ComponentFnVisitor(ast.NodeVisitor):
    """Checks one function of a syntax tree: visit the tree, then read `linter_errors`."""

    def __init__(self, name: str, validators: Sequence[ComponentFunctionValidator] | None) -> None:
        self.component_function_name = name
        self.validators = get_validators() if validators is None else validators
        self.linter_errors: list[LinterMessage] = []
        self.visited_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Check the function, and no functions inside it."""
        if node.name == self.component_function_name:
            self.visited_function = True
            self.linter_errors = list(lint(node, self.validators))


def lint(
    function: Function, validators: Sequence[ComponentFunctionValidator] | None = None
) -> Iterator[LinterMessage]:
    """Return the function's rule violations, in the order of the rules. An async function breaks all."""
    if isinstance(function, ast.AsyncFunctionDef):
        text = f"Function: {function.name} is async; a component is a plain function"
        yield LinterMessage("Async", text, function.lineno, function.col_offset)
        return
    for validator in get_validators() if validators is None else validators:
        yield from validator.validate(function)


def validate(
    path: str, component_function: str, validators: Sequence[ComponentFunctionValidator] | None = None
) -> list[LinterMessage]:
    """The reasons why `component_function` of the file at `path` is no component; none when it is one.

    Args:
        validators: the rules, none with `[]`; `get_validators()` by default.

    Raises OSError when the file cannot be read.
    """
    parsed = read_component_file(path)
    if parsed.error is not None:
        return [syntax_error(parsed.error)]
    found = parsed.functions.get(component_function)
    if found is None:
        return [LinterMessage("NotFound", f"Function {component_function} not found", 1, 0)]
    try:
        return list(lint(found, validators))
    except (MemoryError, RecursionError):  # the file was parsed, but its tree is too deep to visit
        text = f"an expression in function '{component_function}' is nested too deeply"
        return [LinterMessage("SyntaxError", text, found.lineno, found.col_offset)]


def syntax_error(error: SyntaxError) -> LinterMessage:
    return LinterMessage("SyntaxError", error.msg, error.lineno or 1, (error.offset or 1) - 1)


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    found = [*function.args.args, *function.args.kwonlyargs]
    return [*found, function.args.vararg] if function.args.vararg else found


def _defaults(function: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr]]:
    positional = [*function.args.posonlyargs, *function.args.args]
    last = positional[len(positional) - len(function.args.defaults) :]
    yield from zip(last, function.args.defaults, strict=True)
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is not None:
            yield argument, default


def _wrong_default(argument: ast.arg, default: ast.expr) -> str | None:
    """Return the problem of a default; none where default or type are known only when the module runs."""
    try:
        value = ast.literal_eval(default)
        annotation = ast.unparse(_unquoted(argument.annotation) or default)
        if value is None or not _PLAIN_TYPE.fullmatch(annotation):
            return None
        tp = eval(annotation, {"__builtins__": {}, "typing": typing, **_TYPES})
    except Exception:  # names of the module, or a text that is not a type
        return None
    try:
        from_value(value, tp, lambda _, number: _refuse(number))
    except ValueError as error:
        return str(error)
    return None


def _refuse(number: object) -> str:
    raise ValueError(f"want str, got {number!r}")


_TYPES = {name: getattr(typing, name) for name in ("Dict", "List", "Optional", "Tuple")}
_TYPES |= {tp.__name__: tp for tp in (bool, dict, float, int, list, str, tuple)}
_PLAIN_TYPE = re.compile(r"[\w.\[\], |]+")


def _wrong_type(argument: ast.arg) -> str | None:
    """The reason why text cannot be read as the argument's type, without the name of the argument."""
    if argument.annotation is None:
        return "Missing type annotation"
    node = _without_optional(_unquoted(argument.annotation))
    if _is_primitive(node):
        return None
    if not isinstance(node, ast.Subscript):
        return f"Unsupported argument type '{_text(node)}'"
    container = _last_name(node.value)
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if container in _MAPPINGS:
        for role, part in zip(("key", "value"), inner, strict=False):
            if not _is_primitive(part):
                return f"Non-primitive {role} type '{_text(part)}'"
        return None
    if container in _LISTS | _TUPLES:
        for part in inner:
            ends = isinstance(part, ast.Constant) and part.value is ...
            if not _is_primitive(part) and not (ends and container in _TUPLES):
                return f"Non-primitive element type '{_text(part)}'"
        return None
    return f"Unsupported container type '{container}'"


def _without_optional(node: ast.expr | None) -> ast.expr | None:
    """`Optional[T]`, `T | None` and `None | T` without the None, one level of it."""
    if isinstance(node, ast.Subscript) and _last_name(node.value) == "Optional":
        return _unquoted(node.slice)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Constant) and one.value is None:
                return _unquoted(other)
    return node


def _is_primitive(node: ast.expr | None) -> bool:
    return isinstance(_unquoted(node), (ast.Name, ast.Attribute))


def _unquoted(node: ast.expr | None) -> ast.expr | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return node
    return node


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else _text(node)


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""
