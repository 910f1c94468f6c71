"""OTLP over gRPC into an `OtlpReceiver`: the services of the protocol, by grpcio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from tests.support.otlp_receiver import OtlpReceiver

_PATHS = {"Trace": "traces", "Logs": "logs", "Metrics": "metrics"}


@contextmanager
def grpc_otlp(receiver: OtlpReceiver) -> Iterator[str]:
    """The endpoint of a gRPC server; the receiver keeps its requests, under paths like `grpc/v1/logs`."""
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_Services(receiver),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(0).wait(5)


class _Services(grpc.GenericRpcHandler):  # type: ignore[misc]  # typed incompletely
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def service(self, call: Any) -> Any:
        for service, path in _PATHS.items():
            if call.method.endswith(f".{service}Service/Export"):
                return grpc.unary_unary_rpc_method_handler(self._export(f"grpc/v1/{path}"))
        return None

    def _export(self, path: str) -> Callable[[bytes, Any], bytes]:
        return lambda body, _: self._receiver.receive(path, body)[1]
