"""The public API of the five packages as text, one line per name. Run as a program, it rewrites the snapshot.

A module is public if no part of its path starts with an underscore, and a name if its module lists it in
`__all__`. A name that several modules export is described in the first and referred to in the others; members
that a class inherits from another public class are described there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = (
    "otel_evals",
    "otel_evals_exporters",
    "otel_evals_gateway",
    "otel_evals_instrumentation",
    "otel_evals_monitor",
)
SNAPSHOT = Path(__file__).parents[1] / "unit" / "public_api.txt"
Callable_ = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class PublicName:
    """A name that users may import, or a public member of such a class."""

    path: str
    value: Any
    lines: tuple[str, ...]


def public_modules() -> list[ModuleType]:
    """Return the public modules of all packages, sorted by name."""
    names = [name for package in PACKAGES for name in (package, *_below(package))]
    return [importlib.import_module(name) for name in sorted(names)]


def _below(name: str) -> Iterator[str]:
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            yield module.name
            if module.ispkg:
                yield from _below(module.name)


def exported(module: ModuleType) -> list[str]:
    """Return the public names of a module, sorted."""
    constants = [name for name in vars(module) if name.isupper() and not name.startswith("_")]
    return sorted(getattr(module, "__all__", constants), key=lambda name: (name.lower(), name))


def public_names() -> Iterator[tuple[ModuleType, list[PublicName]]]:
    """Yield each public module with its names and their lines in the snapshot."""
    seen: dict[int, str] = {}
    modules = public_modules()
    public = {value for m in modules for n in exported(m) if inspect.isclass(value := getattr(m, n))}
    for module in modules:
        found = []
        for name in exported(module):
            value = getattr(module, name)
            path = f"{module.__name__}.{name}"
            if isinstance(value, ModuleType):
                found.append(PublicName(path, value, (f"module {name}",)))
            elif (inspect.isclass(value) or inspect.isfunction(value)) and id(value) in seen:
                found.append(PublicName(path, value, (f"{name} = {seen[id(value)]}",)))
            else:
                seen[id(value)] = path
                found.append(PublicName(path, value, tuple(_described(name, value, public))))
        yield module, found


def undocumented() -> list[str]:
    """Return the public modules, functions, classes and methods that have no docstring."""
    missing = []
    for module, names in public_names():
        things = [(module.__name__, module)]
        for name in names:
            if inspect.isclass(name.value):
                methods = [each for each in _methods(_owners(name.value)) if not each.startswith("_")]
                things += [(f"{name.path}.{each}", getattr(name.value, each)) for each in methods]
            if inspect.isclass(name.value) or inspect.isfunction(name.value):
                things.append((name.path, name.value))
        missing += [path for path, thing in things if not inspect.getdoc(thing)]
    return missing


def render() -> str:
    """Return the whole snapshot."""
    parts = []
    for module, names in public_names():
        lines = [f"  {line}" for name in names for line in name.lines]
        parts.append("\n".join([module.__name__, *lines]))
    return "\n\n".join(parts) + "\n"


def _described(name: str, value: Any, public: set[type]) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class_lines(name, value, public)
    elif inspect.isfunction(value):
        yield from (f"def {line}" for line in _function_lines(name, value))
    elif isinstance(value, frozenset):
        yield f"{name} = frozenset({sorted(value)})"
    elif isinstance(value, str | int | float | tuple):
        yield f"{name} = {value!r}" if name != "__version__" else name
    else:
        yield f"{name}: {type(value).__name__}"


def _function_lines(name: str, function: Any) -> list[str]:
    nodes = _source(inspect.unwrap(function))
    return [_signature(name, node) for node in nodes if isinstance(node, Callable_)]


def _signature(name: str, node: Callable_) -> str:
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{kind}{name}({ast.unparse(node.args)}){returns}"


def _class_lines(name: str, kind: type, public: set[type]) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    owners = [each for each in _owners(kind) if each is kind or each not in public]
    fields: dict[str, str] = {}
    for owner in reversed(owners):
        fields |= dict(_fields(owner))
    yield from (f"  {line}" for line in fields.values())
    methods = _methods(owners)
    yield from (f"  {line}" for member in sorted(methods) for line in methods[member])


def _owners(kind: type) -> list[type]:
    """Return a class and its bases, as far as they belong to the packages."""
    return [each for each in kind.__mro__ if each.__module__.partition(".")[0] in PACKAGES]


def _source(value: Any) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body


def _class_body(kind: type) -> list[ast.stmt]:
    """Return the statements of a class; not by `inspect`, which does not find structs on every Python."""
    body = _statements(kind.__module__)
    for name in kind.__qualname__.split("."):
        (node,) = (each for each in body if isinstance(each, ast.ClassDef) and each.name == name)
        body = node.body
    return body


@cache
def _statements(module: str) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(importlib.import_module(module))).body


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the annotated fields of a class, the members of an enum, and documented ones of `__init__`."""
    body = _class_body(kind)
    for node in body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                default = f" = {ast.unparse(value)}" if value else ""
                if not name.startswith("_"):
                    yield name, f"{name}: {ast.unparse(annotation)}{default}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                yield name, f"{name} = {ast.unparse(value)}"
            case ast.FunctionDef(name="__init__", body=statements):
                for statement, text in pairwise(statements):
                    match statement, text:
                        case (
                            ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)])
                            | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)),
                            ast.Expr(value=ast.Constant(value=str())),
                        ) if not name.startswith("_"):
                            yield name, name


def _methods(owners: list[type]) -> dict[str, list[str]]:
    """Return the lines of the public methods of classes, and of their constructors."""
    found: dict[str, list[str]] = {}
    for owner in reversed(owners):
        own: dict[str, list[str]] = {}
        for node in _class_body(owner):
            if isinstance(node, Callable_) and (not node.name.startswith("_") or node.name in SHOWN):
                own.setdefault(node.name, []).append(_method_line(node))
        found |= own
    return found


SHOWN = ("__init__", "__call__", "__or__", "__and__")
"""Special methods that users write or rely on."""


def _method_line(node: Callable_) -> str:
    decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        returns = f": {ast.unparse(node.returns)}" if node.returns else ""
        return f"property {node.name}{returns}"
    kinds = sorted(decorators & {"abstractmethod", "classmethod", "overload", "staticmethod"})
    return " ".join([*kinds, f"def {_signature(node.name, node)}"])


if __name__ == "__main__":
    SNAPSHOT.write_text(render(), encoding="utf-8")
