"""Images of a run: kept up to a size, shown if they are images, and exported as references."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from otel_evals.errors import ConfigError
from otel_evals.model import Media, Message, Part
from otel_evals.testing import run_of
from otel_evals_monitor import ResultsDestination
from otel_evals_monitor._internal.page.templates import media
from otel_evals_monitor._internal.report.dataset import items_of
from otel_evals_monitor._internal.report.runs import find_runs
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.replacing import replace
from tests.support.result_records import record
from tests.support.scored import scored_run

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode()
IMAGE = Media(kind="image", mime_type="image/png", name="lift.png", size=108, digest="sha256:ab", base64=PNG)


def stored(folder: Path, seen: Media, **options: Any) -> dict[str, Any]:
    """The image of a run's question, as the store keeps it."""
    said = Message(role="user", parts=(Part(kind="media", media=seen),))
    scored = scored_run()
    scored = replace(scored, run=replace(scored.run, input_messages=(said,)))
    destination = ResultsDestination(folder / "r.db", **options)

    async def write() -> None:
        await destination.export([scored])
        await destination.shutdown()

    asyncio.run(write())
    database = Database(folder / "r.db")
    with database.reading() as connection:
        (found,) = find_runs(connection, scored.run.trace_id)
    database.close()
    (kept,) = found.content["media"]
    return dict(kept)


@pytest.mark.parametrize(("media_bytes", "kept"), [(0, False), (107, False), (108, True)])
def test_images_are_kept_up_to_a_size(tmp_path: Path, media_bytes: int, kept: bool) -> None:
    found = stored(tmp_path, IMAGE, media_bytes=media_bytes)
    assert (found["side"], found["size"], found["digest"]) == ("input", 108, "sha256:ab")
    assert ("base64" in found) == kept


def test_other_bytes_are_never_kept(tmp_path: Path) -> None:
    sound = replace(IMAGE, kind="audio", base64=b64encode(bytes(100)).decode())
    assert "base64" not in stored(tmp_path, sound, media_bytes=1_000_000)


def test_a_limit_that_a_page_cannot_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="media_bytes"):
        ResultsDestination(tmp_path / "r.db", media_bytes=1_000_001)


@pytest.mark.parametrize(
    ("given", "address", "described"),
    [
        (
            {"base64": PNG, "mime_type": "image/svg+xml"},
            f"data:image/png;base64,{PNG}",
            "image, image/svg+xml",
        ),
        ({"base64": b64encode(b"<svg onload=alert(1)>").decode(), "mime_type": "image/png"}, None, "image"),
        ({"base64": PNG + '" onerror="alert(1)'}, None, "image"),
        ({"uri": "https://cdn.example/a.png"}, None, "image, https://cdn.example/a.png"),
        ({"uri": "javascript:alert(1)"}, None, "image, javascript:alert(1)"),
    ],
)
def test_only_images_have_an_address(given: dict[str, str], address: str | None, described: str) -> None:
    (shown,) = media({"media": [{"side": "input", "kind": "image", **given}]}, "input")
    assert shown.address == address
    assert shown.description.startswith(described)


@pytest.mark.parametrize(
    "given", [7, [7], [{"side": "input"}], [{"side": "input", "kind": 3}], {"side": "x"}]
)
def test_other_records_show_nothing(given: Any) -> None:
    assert media({"media": given}, "input") == []


def test_an_exported_run_still_has_its_image(store: ResultsStore) -> None:
    seen = {"side": "input", "kind": "image", "mime_type": "image/png", "base64": PNG}
    store.write([record(1, 0.0) | {"input": "", "media": [seen]}])
    with store.database.reading() as connection:
        (item,) = items_of(connection, [record(1, 0.0)["trace_id"]])
    run = run_of(item["metadata"]["run"])
    assert run.input_messages[0].media == (Media(kind="image", mime_type="image/png", base64=PNG),)
