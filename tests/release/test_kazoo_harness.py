"""kazoo's own test harness, started by environment variables, on our server: examples/kazoo/java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..support.ports import kept_ports

ROOT = Path(__file__).parents[2]

CASE = """
import sys, threading, unittest, unittest.mock
for name in ("OpenSSL", "jks"):  # what the harness makes of them is for a port that is left out
    sys.modules[name] = unittest.mock.MagicMock()
from kazoo.testing import KazooTestCase

class Case(KazooTestCase):
    def test_the_harness(self):
        self.client.create("/here", b"it")
        self.lose_connection(threading.Event)
        before = self.client.client_id[0]
        self.expire_session(threading.Event)
        self.assertNotEqual(self.client.client_id[0], before)
        self.assertEqual(self.client.get("/here")[0], b"it")
        self.assertIn("pyzk", self.client.command(b"srvr"))

unittest.main()
"""


def test_the_harness_of_kazoo(tmp_path: Path) -> None:
    around = {
        **os.environ,
        "PATH": f"{ROOT / 'examples/kazoo'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ZOOKEEPER_CLUSTER_SIZE": "1",
        "ZOOKEEPER_VERSION": "3.9.5",
        "ZOOKEEPER_CLASSPATH": "none",
        "TMPDIR": str(tmp_path),
    }
    with kept_ports(1) as (port,):
        around["ZOOKEEPER_PORT_OFFSET"] = str(port)
        line = [sys.executable, "-c", CASE]
        done = subprocess.run(line, env=around, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
