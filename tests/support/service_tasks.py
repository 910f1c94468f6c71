"""The service as a Celery worker that gives itself six tasks; its broker is a folder."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import worker_ready

from tests.support import service

queue = service.FOLDER / "queue"
queue.mkdir(exist_ok=True)
app = Celery("service", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": str(queue),
    "data_folder_out": str(queue),
    "control_folder": str(queue),
}


@app.task
def answer() -> None:
    service.work()


@worker_ready.connect
def begin(**_: Any) -> None:
    for _ in range(6):
        answer.delay()
