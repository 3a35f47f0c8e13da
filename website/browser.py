"""Opens the built site in Debian's chromium, as a person would, and says what such a person would stumble over."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

WIDE, NARROW = (1280, 900), (390, 844)
SEARCHED = {"ejected": "troubleshooting", "runnable task stall": "troubleshooting", "SchedExtNode": "node-reports"}
SHOWN = ("index", "quickstart", "architecture", "schedulers", "schedctl/reference", "sked/troubleshooting")
_PATIENCE = 30.0  # seconds, for anything that a browser does
_SEARCH = """(async words => {
  const until = async what => { for (let i = 0; i < 200; i++) { const found = what(); if (found) return found;
    await new Promise(done => setTimeout(done, 50)); } return null };
  const roots = function* (node) { yield node; for (const one of node.querySelectorAll('*'))
    if (one.shadowRoot) yield* roots(one.shadowRoot) };
  const find = selector => { for (const root of roots(document)) { const one = root.querySelector(selector);
    if (one) return one } return null };
  (find('.md-search__button') ?? find('[data-md-component=search] button'))?.click();
  const input = await until(() => find('input[type=text], input[role=combobox], input.md-search__input'));
  if (!input) return ['no search field'];
  input.focus(); input.value = words; input.dispatchEvent(new Event('input', {bubbles: true}));
  const links = () => { const all = []; for (const root of roots(document))
    for (const link of root.querySelectorAll('a[href*="?h="], a.md-search-result__link'))
      all.push(link.getAttribute('href'));
    return all.length ? all : null };
  return await until(links) ?? [];
})"""


def start_line(program: str, profile: str) -> list[str]:
    """The command line of a chromium that is spoken to through pipes; what it keeps is in the folder `profile`."""
    flags = ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "no-first-run", "remote-debugging-pipe")
    return [program, *(f"--{flag}" for flag in flags), f"--user-data-dir={profile}", "about:blank"]


class Browser:
    """A chromium without a window, spoken to through a pair of pipes (Chrome DevTools Protocol).

    `command` starts it: what `start_line` makes, or something that runs that elsewhere and leaves its files open.
    """

    def __init__(self, command: Sequence[str]) -> None:
        there, self._write = os.pipe()
        self._read, back = os.pipe()
        line = f'exec "$@" 3<&{there} 4>&{back} 2>/dev/null'
        self._process = subprocess.Popen(["bash", "-c", line, "bash", *command], pass_fds=(there, back))
        os.close(there)
        os.close(back)
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{part}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something, and return its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def wait_for(self, method: str) -> None:
        """Until an event of this name has come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def open(self, url: str) -> list[str]:
        """Go to a page and return what is wrong with it, in the browser's words."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        self.evaluate("new Promise(done => requestIdleCallback(done, {timeout: 1000}))")
        return [problem for event in self.events if (problem := find_problem(event, url))]

    def resize(self, size: tuple[int, int]) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )

    def prefer(self, scheme: str) -> None:
        """Light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shoot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not (more := os.read(self._read, 1 << 20)):
                raise RuntimeError("the browser ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(message))


def find_problem(event: dict[str, Any], url: str) -> str | None:
    """What an event says that should not be: an error of a script, a failed or a foreign request."""
    details = event.get("params", {})
    match event.get("method"):
        case "Runtime.exceptionThrown":
            return f"exception: {details['exceptionDetails'].get('exception', {}).get('description', '')[:200]}"
        case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning"):
            return f"console: {details['args'][0].get('value', '') if details['args'] else ''}"
        case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
            return f"log: {details['entry']['text']} {details['entry'].get('url', '')}"
        case "Network.requestWillBeSent":
            asked = details["request"]["url"]
            host = url.split("/")[2]
            return None if asked.startswith(("data:", "blob:")) or asked.split("/")[2] == host else f"asks for {asked}"
    return None


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The built site at an address of this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def check_site(html: Path, screenshots: Path) -> int:
    """Open every page, wide and narrow, light and dark; search; take pictures. The exit code."""
    program = shutil.which("chromium")
    if program is None:
        print("error: chromium is not installed\nhint: apt-get install chromium", file=sys.stderr)
        return 69
    problems: list[str] = []
    pages = sorted(str(path.relative_to(html)) for path in html.rglob("*.html") if path.name != "404.html")
    with serve(html) as url, tempfile.TemporaryDirectory() as profile, Browser(start_line(program, profile)) as browser:
        for page in pages:
            browser.resize(NARROW)
            problems += [f"{page}: {problem}" for problem in browser.open(f"{url}/{page}")]
            width = browser.evaluate("document.documentElement.scrollWidth")
            if width > NARROW[0]:
                problems.append(f"{page}: {width} pixels wide on a screen of {NARROW[0]}")
        for page in SHOWN:
            for scheme in ("light", "dark"):
                for name, size in (("wide", WIDE), ("narrow", NARROW)):
                    browser.prefer(scheme)
                    browser.resize(size)
                    browser.open(f"{url}/{page}.html")
                    browser.shoot(screenshots / f"{page.replace('/', '-')}-{name}-{scheme}.png")
                shade = browser.evaluate("getComputedStyle(document.body).backgroundColor")
                if is_dark(shade) != (scheme == "dark"):
                    problems.append(f"{page}: the background is {shade} where {scheme} is wanted")
        browser.prefer("light")
        browser.resize(WIDE)
        for words, wanted in SEARCHED.items():
            browser.open(f"{url}/index.html")
            found = browser.evaluate(f"{_SEARCH}({json.dumps(words)})")
            browser.shoot(screenshots / f"search-{words.replace(' ', '-')}.png")
            if not any(wanted in target for target in found):
                problems.append(f"search: {words!r} does not find {wanted}: {found[:5]}")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"site: {len(pages)} pages opened, {len(problems)} problems; pictures in {screenshots}")
    return 1 if problems else 0


def is_dark(shade: str) -> bool:
    """Of a color as a browser computes it: rgb(…) or oklch/hsla etc. are all turned into rgb by it."""
    parts = [float(part) for part in shade[shade.index("(") + 1 : -1].replace("/", ",").split(",")[:3]]
    return sum(parts) / 3 < 128
