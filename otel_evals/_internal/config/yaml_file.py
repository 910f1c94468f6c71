"""Reads YAML files: substitutes environment variables, and remembers the line and column of every field."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from otel_evals.errors import ConfigError

_REFERENCE = re.compile(r"\$\$|\$\{([^}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_STRING = "tag:yaml.org,2002:str"
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null")}

_MOST_VALUES = 100_000


class YamlFile:
    """A configuration file.

    As in the OpenTelemetry Collector, `${NAME}` and `${env:NAME}` are environment variables,
    `${NAME:-default}` is one with a default, and `$$` is a dollar sign. References work in values only and
    never add keys or items. An unquoted value that is a single reference gets the YAML type of its text.

    Raises:
        ConfigError: the file cannot be read, or is not YAML.
    """

    def __init__(self, path: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self.path = str(path)
        self._environment = os.environ if environment is None else environment
        self.errors: list[ConfigError] = []
        """References to variables that are not set, and duplicate keys."""
        try:
            # By nodes instead of `safe_load`: they have the marks from which errors get their places.
            loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
            self._root = loader.get_single_node()
            # Aliases of aliases grow exponentially once they are constructed.
            if _size(self._root, {}) > _MOST_VALUES:
                raise ConfigError(self.path, f"has more than {_MOST_VALUES} values: use fewer aliases")
            self._substitute(self._root, loader, set())
            self.values = None if self._root is None else loader.construct_document(self._root)
        except OSError as error:
            raise ConfigError(self.path, f"cannot be read: {error.strerror}") from error
        except yaml.MarkedYAMLError as error:
            said = ", ".join(filter(None, (error.context, error.problem)))
            raise ConfigError("the file", f"is not YAML: {said}", self._at(error.problem_mark)) from error
        except (yaml.YAMLError, RecursionError, ValueError) as error:  # such as bytes that are not UTF-8
            raise ConfigError(self.path, f"is not YAML: {error}") from error

    def placed(self, errors: Iterable[ConfigError]) -> list[ConfigError]:
        """Return these errors with their places, and the file's own, in the order of the file."""
        own = {error.place.rpartition(":")[0] for error in self.errors}  # by line: they cause the others
        found = [ConfigError(each.field, each.problem, self.place(each.field)) for each in errors]
        others = [each for each in found if each.place.rpartition(":")[0] not in own]
        return sorted([*self.errors, *others], key=lambda error: _numbers(error.place))

    def place(self, field: str) -> str:
        """Return `path:line:column` of a field, such as `rules[0].options.top`, or of its closest parent."""
        mark = getattr(self._root, "start_mark", None)
        step = _step(self._root, field)
        while step is not None:
            node, mark, field = step
            step = _step(node, field)
        return self._at(mark)

    def _at(self, mark: Any) -> str:
        return self.path if mark is None else f"{self.path}:{mark.line + 1}:{mark.column + 1}"

    def _substitute(self, node: Any, loader: yaml.SafeLoader, done: set[int]) -> None:
        """Substitute variables in the values below a node, and note duplicate keys."""
        if node is None or id(node) in done:  # an alias
            return
        done.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            self._put_in(node, loader)
        elif isinstance(node, yaml.SequenceNode):
            for each in node.value:
                self._substitute(each, loader, done)
        else:
            keys: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in keys:
                    self._note(key, name, "appears twice: the first one would be ignored")
                keys.add(name)
                self._substitute(value, loader, done)

    def _put_in(self, node: yaml.ScalarNode, loader: Any) -> None:
        if "$" not in node.value:
            return
        # Quotes, and text around a reference, say that a string is meant.
        whole = node.style is None and _REFERENCE.fullmatch(node.value) is not None
        node.value = _REFERENCE.sub(lambda match: self._value(match, node), node.value)
        tag = loader.resolve(yaml.ScalarNode, node.value, (True, False))
        node.tag = tag if whole and tag in _PLAIN else _STRING

    def _value(self, match: re.Match[str], node: yaml.ScalarNode) -> str:
        if match[0] == "$$":
            return "$"
        found = _VARIABLE.fullmatch(match[1])
        if found is None:
            self._note(node, match[0], "must name an environment variable, as in ${NAME} or ${NAME:-default}")
            return ""
        name, default = found.groups()
        value = self._environment.get(name)
        # As in a shell, `:-` applies to an empty variable, too.
        if not value and default is not None:
            return default
        if value is None:
            problem = f"the environment variable {name} is not set; for a default, write ${{{name}:-default}}"
            self._note(node, match[0], problem)
        return value or ""

    def _note(self, node: Any, field: str, problem: str) -> None:
        self.errors.append(ConfigError(field, problem, self._at(node.start_mark)))


def _numbers(place: str) -> list[int]:
    return [int(part) for part in place.rsplit(":", 2)[1:] if part.isdigit()]


def _step(node: Any, field: str) -> tuple[Any, Any, str] | None:
    """Take the first step of a field's path: return the node, its place and the rest of the path."""
    if isinstance(node, yaml.SequenceNode):
        index = re.match(r"\[(\d+)\]\.?", field)
        if index is None:
            return None
        item = node.value[int(index[1])]
        return item, item.start_mark, field[index.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    # Longest keys first: keys of `when` may contain dots.
    for key, value in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
        name = str(key.value)
        rest = field[len(name) :]
        if field.startswith(name) and (not rest or rest[0] in ".["):
            return value, key.start_mark, rest.removeprefix(".")
    return None


def _size(node: Any, known: dict[int, int]) -> int:
    """Return the number of values in a node; an alias counts each time that it is used."""
    if id(node) not in known:
        known[id(node)] = 1  # of an alias to a node around it, too
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = isinstance(node, yaml.MappingNode)
        known[id(node)] += sum(_size(each[1] if pairs else each, known) for each in below)
    return known[id(node)]
