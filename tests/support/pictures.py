"""The pictures of the tour: how they are taken, and how a test knows that they are current.

Five pictures show parts of the README's example that breaks. The others show the form of the local Airflow, and the
matrix of the smoke scenarios. Beside the pictures, `pictures.json` holds the labels that each of them shows: headings,
columns, fields and legends, i.e. the words that do not depend on the run. If this checkout shows other labels, the
pictures are old. Fonts, figures and colours are not compared, because they differ from host to host and from run to
run.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # the unit tests only read the list of pictures
    from playwright.sync_api import Browser, Locator, Page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
LIST = FOLDER / "pictures.json"
WIDTH = 1200
"""The width of every picture, in pixels."""
Taken = dict[str, tuple[bytes, list[str]]]
"""Pictures by the names of their files: the PNG file and the labels of each."""
_LABELS = "h2, h3, thead th, .legend span, tbody th small, summary > b, .hops b, .change th"
_TERMINAL = (
    "<style>body {{ margin: 0; background: #14161a; }} pre {{ margin: 0; padding: 22px; color: #e6e6e6; "
    "font: 12px/1.45 'DejaVu Sans Mono', monospace; white-space: pre-wrap; }} b {{ color: #fff; }} "
    ".bad {{ color: #ff6b6b; font-weight: bold; }}</style><pre>{text}</pre>"
)


class Picture(msgspec.Struct, frozen=True):
    """One picture as `pictures.json` has it: the SHA-256 of its file, and the labels that it shows."""

    sha256: str
    labels: list[str]


def read() -> dict[str, Picture]:
    """Returns the pictures by the names of their files."""
    return msgspec.json.decode(LIST.read_bytes(), type=dict[str, Picture])


def digest(picture: bytes) -> str:
    """Returns the SHA-256 of a PNG file."""
    return hashlib.sha256(picture).hexdigest()


def write(taken: Taken) -> None:
    """Replaces the pictures `taken`, and their entries in the list."""
    FOLDER.mkdir(exist_ok=True)
    for name, (png, _) in taken.items():
        (FOLDER / name).write_bytes(png)
    listed = read() | {name: Picture(digest(png), labels) for name, (png, labels) in taken.items()}
    LIST.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(listed.items()))), indent=1) + b"\n")


def check(taken: Taken) -> None:
    """Asserts that the stored pictures show the labels of those that were `taken`. If the environment has
    KDV_TEST_PICTURES, replaces them first."""
    if "KDV_TEST_PICTURES" in os.environ:
        write(taken)
    stored = {name: picture.labels for name, picture in read().items() if name in taken}
    assert {name: labels for name, (_, labels) in taken.items()} == stored, "renew them: make pictures"


def take(browser: Browser, report: Path, command: str, said: str) -> Taken:
    """Takes the pictures of a report and of what the terminal shows.

    `report`: the report of the run. `command`: the command that made the run. `said`: what the command printed.
    """
    context = browser.new_context(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.goto(f"file://{report}")
    page.locator("#timeline-plot canvas").first.wait_for()
    taken = {name: (shoot(page), _labels(page, selectors)) for name, (shoot, selectors) in PARTS.items()}
    page.set_viewport_size({"width": WIDTH, "height": 100})
    page.set_content(_TERMINAL.format(text=_coloured(f"$ {command}\n{_verdict_of(said)}")))
    taken["terminal.png"] = page.screenshot(full_page=True), _terminal_labels(said)
    context.close()
    return taken


def take_matrix(browser: Browser, page_of_matrix: Path) -> Taken:
    """Takes the picture of a matrix: the upper part of its page, to the end of the map."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.goto(f"file://{page_of_matrix}")
    box = page.locator("#map").bounding_box()
    assert box is not None
    shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"]})
    rows = page.locator("#map tbody th[scope=rowgroup], #map tbody th a").all_text_contents()
    labels = _labels(page, ("#summary", "#map")) + _plain(rows)
    context.close()
    return {"matrix.png": (shot, labels)}


def take_form(page: Page, dialog: Locator) -> Taken:
    """Takes the picture of the form, which stands in `dialog`. Its labels are the fields and sections that are seen."""
    page.set_viewport_size({"width": WIDTH, "height": 1500})
    seen = dialog.locator("label:visible, [data-part='item-trigger']:visible")
    names = [text.removesuffix("*") for text in seen.all_text_contents()]  # the star of a field that must be filled
    return {"form.png": (dialog.screenshot(), _plain(names))}


def _first_screen(page: Page) -> bytes:
    page.evaluate("scrollTo(0, 0)")
    return page.screenshot()


def _section(name: str, height: int = 1400) -> Callable[[Page], bytes]:
    """Returns a function that takes a picture of the section `name`, unfolded, at most `height` pixels high."""

    def shoot(page: Page) -> bytes:
        section = page.locator(f"#{name}")
        section.evaluate("each => each.querySelectorAll(':scope > details').forEach(fold => fold.open = true)")
        section.scroll_into_view_if_needed()
        box = section.bounding_box()
        assert box is not None, name
        box["y"] += page.evaluate("scrollY")
        return page.screenshot(full_page=True, clip={**box, "height": min(box["height"], height)})

    return shoot


PARTS: dict[str, tuple[Callable[[Page], bytes], tuple[str, ...]]] = {
    "report.png": (_first_screen, ("#verdict", "#arms", "#timeline")),
    "why.png": (_section("why"), ("#why",)),
    "change.png": (_section("change"), ("#change",)),
    "proofs.png": (_section("proofs"), ("#proofs",)),
}
"""The pictures of the report: how each is taken, and the sections whose labels it shows."""


def _labels(page: Page, selectors: tuple[str, ...]) -> list[str]:
    """Returns the labels in some sections, each once. Names and figures of the run are taken out."""
    found: list[str] = []
    for selector in selectors:
        found += page.locator(selector).locator(_LABELS).all_text_contents()
    return _plain(found)


def _terminal_labels(said: str) -> list[str]:
    """Returns the columns of the table and the headings of the sections in a terminal."""
    table = next(line for line in said.splitlines() if line.startswith("| arm "))
    headings = re.findall(
        r"^(?:What to change|What this run does not show|Try it:|report|data docs|repeat)\b", said, re.M
    )
    return _plain([*table.strip("| \n").split("|"), *headings])


def _plain(labels: list[str]) -> list[str]:
    texts = [re.sub(r"\d[\d,.]*", "#", " ".join(html.unescape(label).split())) for label in labels]
    return list(dict.fromkeys(text for text in texts if text))


def _verdict_of(said: str) -> str:
    """What a command prints from the verdict on, as wide as the picture can show."""
    return said[said.index("VIOLATED (") :]


def _coloured(text: str) -> str:
    return re.sub(r"^(VIOLATED \([^)]*\))", r'<span class="bad">\1</span>', html.escape(text), flags=re.M)
