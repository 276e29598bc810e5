"""A browser for tests: Debian's chromium, driven over a pipe by the DevTools protocol.

Messages are JSON, each behind a zero byte: ours go to file descriptor 3 of the browser, its own come from 4.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .needs import need
from .waiting import PATIENCE

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
"""The first one that is installed is taken: it has no window to draw, and needs the least."""
_ON_3_AND_4 = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # what it opens is ours, and tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-features=Translate,MediaRouter,OptimizationHints",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
)


class BrowserError(Exception):
    """The browser has refused a command, or a script in a page has failed."""


class Browser:
    """One process of the browser. Each page is of a profile of its own."""

    def __init__(self, process: subprocess.Popen[bytes], to_it: int, from_it: int) -> None:
        self._process = process
        self._to_it = to_it
        self._from_it = from_it
        self._numbers = iter(range(1, 1_000_000_000))
        self._answers: dict[int, queue.Queue[Any]] = {}
        self._pages: dict[str, Page] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while piece := os.read(self._from_it, 65536):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif page := self._pages.get(message.get("sessionId", "")):
                    page.heard(message["method"], message["params"])

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Send a command, and return its result.

        :raises BrowserError: if it is refused.
        """
        number = next(self._numbers)
        answer = self._answers[number] = queue.Queue()
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to_it, json.dumps(message).encode() + b"\0")
        found = answer.get(timeout=PATIENCE)
        if "error" in found:
            raise BrowserError(f"{method}: {found['error']['message']}")
        return found["result"]

    @contextmanager
    def open(self, url: str, *, dark: bool = False, width: int = 1280, height: int = 800) -> Iterator[Page]:
        """Open a page in a profile of its own; what has gone wrong in it is an error on leaving."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            page.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
            page.dark(dark)
            page.call("Page.navigate", url=url)
            yield page
            assert page.troubles() == []
        finally:
            del self._pages[session]
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        os.close(self._to_it)  # it ends itself then
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        os.close(self._from_it)


class Page:
    """One page.

    :ivar allowed: parts of messages of the console that are no trouble.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._heard: list[str] = []
        self.allowed: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **params: Any) -> Any:
        return self._browser.call(method, self._session, **params)

    def heard(self, method: str, params: Any) -> None:
        """Note an event of the browser; in the thread that reads."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self._heard.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            if entry["source"] != "network" or "status of 4" not in entry["text"]:  # an answer, no trouble
                self._heard.append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self._heard.append(f"a dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def troubles(self) -> list[str]:
        return [text for text in self._heard if not any(part in text for part in self.allowed)]

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited.

        :raises BrowserError: if it throws.
        """
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({script})"):
            if time.monotonic() > end:
                shown = self.evaluate("document.body.innerText")
                raise AssertionError(f"not within {seconds:g} s: {script}\n{shown}\n{self._heard}")
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """Return the text of an element, waiting until it is there."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all such elements."""
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
        return list(self.evaluate(script))

    def see(self, text: str, selector: str = "body") -> None:
        """Wait until an element shows a text."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{found}?.innerText.includes({json.dumps(text)})")

    def click(self, text: str, selector: str = "button", within: str = "document") -> None:
        """Click the first such element that has this text, once it is there and enabled.

        :param within: the expression of an element around it.
        """
        script = f"[...({within}?.querySelectorAll({json.dumps(selector)}) ?? [])]"
        script += f".find(e => e.innerText.trim() === {json.dumps(text)} && !e.disabled)"
        self.until(f"(e => e && (e.click(), true))({script})")  # at once: the page may replace it at any time

    def fill(self, selector: str, value: str) -> None:
        """Set the value of a field, as if it were typed."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(
            f"{{ const field = document.querySelector({json.dumps(selector)});"
            f" field.value = {json.dumps(value)};"
            " for (const kind of ['input', 'change'])"
            " field.dispatchEvent(new Event(kind, { bubbles: true })); }"
        )

    def key(self, key: str, code: int = 0) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def dark(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the page.

        :param whole: whether it shows also what is below the window.
        """
        options: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": size | {"scale": 1}}
        shot = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False, **options)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Start a browser; skip the test where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    need(None if program else "no chromium on the PATH (apt-get install chromium-headless-shell)")
    need(None if shutil.which("bash") else "no bash on the PATH")
    assert program is not None
    its_input, to_it = os.pipe()
    from_it, its_output = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        descriptors = str(its_input), str(its_output)
        options = [*_OPTIONS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", _ON_3_AND_4, "bash", *descriptors, program, *options],
            pass_fds=(its_input, its_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        browser = Browser(process, to_it, from_it)
        try:
            yield browser
        finally:
            browser.close()
