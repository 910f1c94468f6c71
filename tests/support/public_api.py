"""The public API of the five packages as text, one line per name. Run as a program, it rewrites the snapshot.

A module is public if no part of its path starts with an underscore, and a name if its module lists it in
`__all__`. A name that several modules export is described in the first and referred to in the others.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
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
SPECIAL = ("__init__", "__call__", "__or__", "__and__")
"""Special methods that users call or rely on."""
PLAIN = str | int | float | tuple | frozenset | None


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


def undocumented() -> list[str]:
    """Return the public modules, functions, classes and methods that have no docstring."""
    missing = []
    for module in public_modules():
        things = [(module.__name__, module)]
        for name in exported(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                things.append((f"{module.__name__}.{name}", value))
            if inspect.isclass(value):
                things += [
                    (f"{name}.{key}", member)
                    for key, member in members(value).items()
                    if not key.startswith("_")
                    and (inspect.isfunction(member) or isinstance(member, property))
                ]
        missing += [path for path, thing in things if not inspect.getdoc(thing)]
    return missing


def members(kind: type) -> dict[str, Any]:
    """Return the public members that a class has from the packages, sorted by name."""
    owners = [each for each in kind.__mro__ if each.__module__.partition(".")[0] in PACKAGES]
    found: dict[str, Any] = {}
    for owner in reversed(owners):
        found |= dict.fromkeys(inspect.get_annotations(owner)) | vars(owner)
    return {name: found[name] for name in sorted(found) if name in SPECIAL or not name.startswith("_")}


def render() -> str:
    """Return the whole snapshot."""
    seen: dict[int, str] = {}
    parts = []
    for module in public_modules():
        lines = [module.__name__]
        for name in exported(module):
            value = getattr(module, name)
            path = f"{module.__name__}.{name}"
            is_code = inspect.isclass(value) or inspect.isfunction(value)
            known = seen.setdefault(id(value), path) if is_code else path
            lines += [f"{name} = {known}"] if known != path else [*_described(name, value)]
        parts.append("\n  ".join(lines))
    return "\n\n".join(parts) + "\n"


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        for key, member in members(value).items():
            if key in SPECIAL and member.__module__.partition(".")[0] not in PACKAGES:
                continue  # made by another library
            yield from (f"  {line}" for line in _described(key, member))
    elif isinstance(value, property | cached_property):
        yield f"property {name}"
    elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
        yield f"{name}{_signature(value)}"
    elif isinstance(value, str | int | float | tuple | frozenset) and name != "__version__":
        yield f"{name} = {sorted(value) if isinstance(value, frozenset) else value!r}"
    else:
        yield name


def _signature(value: Any) -> str:
    """Return parameters and result; a default that is an object is shown as dots."""
    signature = inspect.signature(inspect.unwrap(getattr(value, "__func__", value)))
    shown = [
        each if each.default is each.empty or isinstance(each.default, PLAIN) else each.replace(default=...)
        for each in signature.parameters.values()
    ]
    # Annotations are texts, in quotes.
    return re.sub(r"(?<=: |> )'([^']*)'", r"\1", str(signature.replace(parameters=shown)))


if __name__ == "__main__":
    SNAPSHOT.write_text(render(), encoding="utf-8")
