"""The public API of the five packages changes on purpose only, and all of it is documented."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import public_api

REWRITE = "the public API changed: if you meant that, run `python3 dev.py api` and commit the difference"


def test_the_public_api_is_that_of_the_snapshot() -> None:
    assert public_api.render() == public_api.SNAPSHOT.read_text(encoding="utf-8"), REWRITE


def test_everything_public_has_a_docstring() -> None:
    assert public_api.undocumented() == []


@pytest.mark.parametrize("module", public_api.public_modules(), ids=lambda module: module.__name__)
def test_public_names_are_listed(module: ModuleType) -> None:
    names = getattr(module, "__all__", None)
    if names is None:
        assert all(name.isupper() for name in public_api.exported(module)), "the module needs __all__"
    else:
        assert all(hasattr(module, name) for name in names)


def test_every_public_module_has_its_place_in_the_reference() -> None:
    pages = Path(__file__).parents[2].joinpath("docs", "reference").glob("*.md")
    shown = [name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)]
    assert sorted(shown) == [module.__name__ for module in public_api.public_modules()]
