"""A worker of Celery's prefork pool: billiard forks it, and it ends by ``os._exit``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyzk.server.testing import EmbeddedServer

from ..support.waiting import PATIENCE

pytest.importorskip("celery", reason="celery is not installed: pip install -e '.[frameworks]'")

TASKS = """
import sys
from functools import cache
from celery import Celery
from pyzk.blocking import connect

folder, hosts = {folder!r}, {hosts!r}
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {{
    "data_folder_in": folder, "data_folder_out": folder, "control_folder": folder
}}

@cache
def client():
    return connect(hosts).__enter__()

@app.task
def register():
    client().create("/here", ephemeral=True)
"""


def test_a_worker_that_shuts_down_closes_its_client(server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    (tmp_path / "tasks.py").write_text(TASKS.format(folder=str(tmp_path / "queue"), hosts=server.hosts))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (*sys.path, str(tmp_path))))}
    send = [sys.executable, "-c", "from tasks import register; register.delay()"]
    subprocess.run(send, env=environment, cwd=tmp_path, check=True)
    work = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool=prefork", "--concurrency=1"]
    with subprocess.Popen(
        [*work, "--without-gossip", "--without-mingle", "--without-heartbeat"],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as worker:
        try:
            server.wait_for("/here", timeout=PATIENCE)
            assert len(server.sessions()) == 1
            worker.send_signal(signal.SIGTERM)
            output, _ = worker.communicate(timeout=PATIENCE)
        finally:
            worker.kill()
    assert worker.returncode == 0, output
    assert server.sessions() == [], "the session was closed, not left to expire"
