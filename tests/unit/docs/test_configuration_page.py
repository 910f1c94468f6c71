"""The configuration page says what the configuration is."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date_and_names_every_option() -> None:
    """Every field of the model has its row, with its default and its words."""
    generator = runpy.run_path(str(ROOT / "docs" / "generate_configuration.py"))
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == generator["page"](), "run: python docs/generate_configuration.py"
    from otel_evals import Config, Rule

    for model in (Rule, Config):
        missing = [
            n for n in model.__dataclass_fields__ if n not in ("_", "sections") and f"| `{n}` |" not in page
        ]
        assert not missing
