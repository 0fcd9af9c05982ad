"""Open every page of the built site in a headless Chromium, and name what a reader would trip over.

Checked at 400, 800 and 1280 pixels, light and dark: that no page scrolls sideways, that no formula is left raw, that
every picture loads, that nothing is fetched from elsewhere; and that every link within the site leads somewhere.

    mkdocs build --strict --site-dir site && python scripts/check_site.py site --pictures pages

Only Chromium is needed, in PATH or named by ``--browser``.
"""

from __future__ import annotations

import argparse
import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

WIDTHS = (400, 800, 1280)
THEMES = ("default", "slate")
RAW = r"\\\\[(\\[]|\\$\\$|\\\\(?:frac|sum|sqrt|alpha|varepsilon)|:(?:class|func|meth|mod|data):"

FRAMES = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %(pages)s, widths = %(widths)s, themes = %(themes)s, raw = new RegExp(%(raw)s), found = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
async function look(page, width, theme) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  document.body.replaceChildren(frame);
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const inside = frame.contentDocument;
  inside.body.dataset.mdColorScheme = theme;
  inside.querySelectorAll("img").forEach(image => { image.loading = "eager"; });
  for (let k = 0; k < 40 && [...inside.images].some(image => !image.complete); k++) await wait(50);
  const name = `${page} at ${width} px, ${theme}`;
  const wide = inside.documentElement.scrollWidth;
  if (wide > width) {
    const beyond = element => element.getBoundingClientRect().right > width + 1;
    const guilty = [...inside.body.querySelectorAll("*")].filter(beyond).pop();
    const which = guilty ? guilty.tagName + "." + guilty.className : "?";
    found.push(`${name}: scrolls sideways, ${wide} px wide (${which})`);
  }
  if (width !== widths[0] || theme !== themes[0]) return;
  for (const image of inside.images)
    if (!image.naturalWidth) found.push(`${name}: no picture at ${image.getAttribute("src")}`);
  const copy = inside.querySelector("article, main, body").cloneNode(true);
  copy.querySelectorAll("code, pre, math, script, style").forEach(node => node.remove());
  const hit = raw.exec(copy.textContent);
  if (hit) found.push(`${name}: raw text "${copy.textContent.slice(Math.max(0, hit.index - 20), hit.index + 30)}"`);
  for (const entry of frame.contentWindow.performance.getEntriesByType("resource"))
    if (!entry.name.startsWith(location.origin)) found.push(`${name}: fetches ${entry.name}`);
}
(async () => {
  for (const page of pages) for (const width of widths) for (const theme of themes) {
    try { await look(page, width, theme); } catch (error) { found.push(`${page} at ${width} px: ${error}`); }
  }
  await fetch("/findings", { method: "POST", body: JSON.stringify(found) });
})();
</script>"""


class Links(HTMLParser):
    """Targets of links and pictures of a page, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value and key in ("href", "src"):
                self.targets.append(value)
            if value and key in ("id", "name"):
                self.anchors.add(value)


def dead_links(site: Path) -> list[str]:
    """Links within the site that lead nowhere."""
    pages = {path: Links(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        base = "http://site/" + path.relative_to(site).as_posix()
        for target in dict.fromkeys(page.targets):
            address, anchor = urldefrag(urljoin(base, target))
            if not address.startswith("http://site/"):
                continue
            file = site / unquote(urlsplit(address).path).lstrip("/")
            file = file / "index.html" if file.is_dir() else file
            where = path.relative_to(site).as_posix()
            if not file.is_file():
                found.append(f"{where}: dead link {target}")
            elif anchor and file in pages and unquote(anchor) not in pages[file].anchors | {"__top"}:
                found.append(f"{where}: no anchor {target}")
    return found


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site and the page of frames, and takes what that page found."""

    frames = ""
    findings: list[str] | None = None
    done = threading.Event()

    def do_GET(self) -> None:
        if self.path != "/frames":
            return super().do_GET()
        body = Handler.frames.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        Handler.findings = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        Handler.done.set()

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome") or "chromium")
    parser.add_argument("--only", default="", help="pages whose address contains this text")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each page at 1280 pixels")
    parser.add_argument("--limit", type=float, default=540, help="longest time [s]")
    asked = parser.parse_args()
    pages = [
        "/" + path.parent.relative_to(asked.site).as_posix() + "/" for path in sorted(asked.site.rglob("index.html"))
    ]
    pages = [page.replace("/./", "/") for page in pages if asked.only in page]
    Handler.frames = FRAMES % {
        "pages": json.dumps(pages), "widths": list(WIDTHS), "themes": json.dumps(THEMES), "raw": f'"{RAW}"',
    }  # fmt: skip
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(asked.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [asked.browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        browser = subprocess.Popen(
            [*words, "--remote-debugging-port=0", f"{address}/frames"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            complete = Handler.done.wait(asked.limit)
        finally:
            browser.terminate()
            browser.wait()
        if asked.pictures:
            asked.pictures.mkdir(parents=True, exist_ok=True)
            for page in pages:
                file = asked.pictures / f"{re.sub(r'[^a-z0-9]+', '-', page).strip('-') or 'home'}.png"
                shot = [*words, "--window-size=1280,1600", f"--screenshot={file}", address + page]
                subprocess.run(shot, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
    server.shutdown()
    if not complete:
        print(f"the browser did not finish {len(pages)} pages within {asked.limit:g} s")
        return 1
    found = dead_links(asked.site) + (Handler.findings or [])
    print(*(html.unescape(line) for line in found), sep="\n")
    print(f"{len(pages)} pages at {len(WIDTHS)} widths, light and dark: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
