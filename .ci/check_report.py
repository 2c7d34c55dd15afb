"""Load a report in a real browser and use it: ``python .ci/check_report.py report.html [folder for screenshots]``.

Asserts, at the width of a phone and of a desk: no message of severity on the console, no request to a network, nothing
wider than the page, and a table that sorts, searches and unfolds, with the tables of labels below their rows. Speaks
the WebDriver protocol to chromedriver itself, so that nothing need be installed beside Debian's chromium and
chromium-driver; without them it says so and exits with code 0.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]

UNFOLD = 'document.querySelectorAll("details").forEach(details => { details.open = true; });'
OVERFLOW = """
const width = document.documentElement.clientWidth, wide = [];
for (const element of document.querySelectorAll("body *")) {
  const box = element.getBoundingClientRect();
  if (box.right > width + 1 && !element.closest(".scroll, .panorama > div") && box.width > 0)
    wide.push(element.tagName + "." + element.className);
}
return {page: document.documentElement.scrollWidth, width: width, wide: wide};
"""
CUT = """
return [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1).map(
  box => box.innerText.slice(0, 60));
"""
VISIBLE = """
return [...document.querySelectorAll("#couplings tbody tr[data-order]")].filter(row => !row.hidden).map(
  row => [row.dataset.name, Number(row.cells[arguments[0]].dataset.v)]);
"""
PRESS = 'document.querySelectorAll("#couplings thead button")[arguments[0]].click();'
STRAYS = """
return [...document.querySelectorAll("#couplings tbody tr.labels")].filter(row => {
  const above = row.previousElementSibling;
  return !above.dataset.order || above.hidden !== row.hidden;
}).length;
"""
HEADINGS = 'return document.querySelectorAll("#couplings thead button").length;'
SEARCH = """
const box = document.getElementById("search");
box.value = arguments[0]; box.dispatchEvent(new Event("input"));
"""
CHOOSE = """
const box = document.getElementById("order");
box.value = arguments[0]; box.dispatchEvent(new Event("change"));
"""
REQUESTS = """
return performance.getEntriesByType("resource").map(entry => entry.name).filter(name => !name.startsWith("data:"));
"""


class Browser:
    """One headless Chromium behind chromedriver."""

    def __init__(self, profile: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        options = {
            "args": [*FLAGS, f"--user-data-dir={profile}"],
            "binary": shutil.which("chromium"),
        }
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.path = ""
        self.path = f"/session/{self._start(capabilities)['sessionId']}"

    def _start(self, capabilities: dict[str, Any]) -> Any:
        for attempt in range(50):
            try:
                return self.post("/session", {"capabilities": {"alwaysMatch": capabilities}})
            except urllib.error.URLError as error:
                if isinstance(error, urllib.error.HTTPError) or attempt == 49:
                    raise
                time.sleep(0.2)  # chromedriver is not listening yet
        raise AssertionError

    def post(self, command: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self.address}{self.path}{command}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.post("/execute/sync", {"script": script, "args": list(arguments)})

    def open(self, url: str, width: int) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
        self.post("/url", {"url": url})

    def screenshot(self, path: Path) -> None:
        params = {"captureBeyondViewport": True, "format": "png"}
        shot = self.post("/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": params})
        path.write_bytes(base64.b64decode(shot["data"]))

    def console(self) -> list[str]:
        log = self.post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]

    def close(self) -> None:
        """End the session, which ends the browser, and then chromedriver."""
        if self.path:
            request = urllib.request.Request(f"{self.address}{self.path}", method="DELETE")
            urllib.request.urlopen(request, timeout=20).close()
        self.process.terminate()
        self.process.wait(timeout=20)


def check(browser: Browser, url: str, width: int, screenshots: Path | None) -> None:
    """Everything, at one width of the window."""
    browser.open(url, width)
    browser.run(UNFOLD)
    found = browser.run(OVERFLOW)
    assert found["width"] <= width, found
    assert found["page"] <= found["width"], f"the page is wider than {width} px: {found}"
    assert not found["wide"], f"wider than {width} px: {found['wide']}"
    assert not browser.run(CUT), f"tables cut at {width} px: {browser.run(CUT)}"
    broken = browser.run("return [...document.images].filter(image => !image.naturalWidth).length;")
    assert not broken, f"{broken} pictures do not load"
    if screenshots is not None:
        browser.screenshot(screenshots / f"report-{width}.png")
    check_sorting(browser)
    check_search(browser)
    assert not browser.run(REQUESTS), f"the page asks for {browser.run(REQUESTS)}"
    messages = browser.console()
    assert not messages, f"messages on the console: {messages}"


def check_sorting(browser: Browser) -> None:
    for column in range(1, browser.run(HEADINGS)):
        orders = []
        for _ in range(2):
            browser.run(PRESS, column)
            values = [value for _, value in browser.run(VISIBLE, column)]
            assert values in (sorted(values), sorted(values, reverse=True)), f"column {column} is not sorted: {values}"
            assert len(values) > 1
            assert not browser.run(STRAYS), "tables of labels do not stay below their interactions"
            orders.append(values)
        if len(set(orders[0])) > 1:
            assert orders[0] != orders[1], f"column {column}: a second press does not turn the order around"
    browser.run(PRESS, 0)
    names = [name for name, _ in browser.run(VISIBLE, 1)]
    browser.run(PRESS, 0)
    assert names != [name for name, _ in browser.run(VISIBLE, 1)], "names do not sort"


def check_search(browser: Browser) -> None:
    everything = browser.run(VISIBLE, 1)
    name = everything[0][0].split(" × ")[0]
    browser.run(SEARCH, name)
    hits = browser.run(VISIBLE, 1)
    assert hits
    assert all(name in label for label, _ in hits), f"a search for {name!r} shows {hits}"
    assert not browser.run(STRAYS), "tables of labels are shown without their interactions"
    browser.run(SEARCH, "no such variable")
    assert not browser.run(VISIBLE, 1), "a search for nothing finds something"
    browser.run(SEARCH, "")
    assert len(browser.run(VISIBLE, 1)) == len(everything)
    order = str(int(everything[0][1]))
    browser.run(CHOOSE, order)
    assert {str(int(value)) for _, value in browser.run(VISIBLE, 1)} == {order}
    browser.run(CHOOSE, "")
    browser.run('document.getElementById("more").click();')
    shown = browser.run(VISIBLE, 1)
    total = browser.run('return document.querySelectorAll("#couplings tbody tr[data-order]").length;')
    assert len(shown) == total, f"'Show all' shows {len(shown)} of {total}"


def main(report: str, screenshots: str | None = None) -> int:
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        print(f"the report was not checked in a browser: {' and '.join(missing)} not installed.")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            for width in (390, 1280):
                check(browser, Path(report).resolve().as_uri(), width, Path(screenshots) if screenshots else None)
        finally:
            browser.close()
    print("the report works in a browser: no message, nothing too wide, sorting and searching, at 390 and 1280 px.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
