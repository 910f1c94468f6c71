"""A gateway on loopback, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.live.providers import Providers
from otel_evals.testing import InMemoryDestination
from otel_evals_gateway._internal.service import Gateway
from tests.support.gateway_process import GatewayProcess, get, post
from tests.support.waits import SECONDS, eventually

__all__ = ["GatewayProcess", "GatewayThread", "get", "post"]


class GatewayThread:
    """A gateway in a thread of this process; use as a context manager.

    Args:
        rules: what is scored.
        providers: take what is emitted.
        gateway: the section of that name; HTTP listens on a free port.
        options: the other options.
    """

    def __init__(
        self,
        *rules: Any,
        providers: Providers | None = None,
        gateway: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.scored = InMemoryDestination()
        section = {"http": "127.0.0.1:0", "quiet": 0.1, "idle": 0.3, **(gateway or {})}
        destinations = options.pop("destinations", [self.scored])
        self.config = build_config(rules, destinations, gateway=section, **options)
        self._providers = providers
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway")
        self.service: Any = None

    @property
    def endpoint(self) -> str:
        """Base URL of its HTTP receiver."""
        scheme = "https" if self.config.sections["gateway"].tls else "http"
        return f"{scheme}://127.0.0.1:{self.service.ports['http']}"

    def post(self, path: str, body: bytes, *args: Any, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        """Post to a path of its HTTP receiver."""
        return post(self.endpoint + path, body, *args, **headers)

    def evaluations(self, count: int) -> list[Any]:
        """Wait for so many evaluations, and return all."""
        return eventually(lambda: len(found := list(self.scored.evaluations)) >= count and found)  # type: ignore[no-any-return]

    def start(self) -> None:
        """Start, and wait until it listens."""
        self._thread.start()
        assert self._ready.wait(SECONDS)
        if self._failed is not None:
            self._thread.join()
            raise self._failed

    def stop(self) -> None:
        """Drain and end."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            assert self.service.scoring.engine.stats().check() == []

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.service = Gateway(self.config, self._providers)
        await self.service.serve(self._stop, self._ready.set)
