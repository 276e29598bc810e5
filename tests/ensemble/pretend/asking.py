"""Requests to the control API of any server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any


def ask(url: str | None, path: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(f"{url}api/v1{path}", headers={"content-type": "application/json"})
    if body is not None:
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return json.loads(error.read())
