"""The page in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from insitu.orchestrator.report.page import write_report
from insitu.orchestrator.report.summary import Summary
from tests.report.scenes import (
    bent_summary,
    empty_summary,
    finished_summary,
    hostile_summary,
    invalid_summary,
    narrowed_summary,
    ranking_summary,
    running_summary,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on the PATH"),
]


class Visit:
    """A page that was opened, and everything it said and asked for on the way."""

    def __init__(self, browser: Browser, path: Path, width: int, scheme: str) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.theme !== undefined")

    def overflow(self) -> int:
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def column(self, number: int) -> list[str]:
        cells = self.page.locator(f"#trials tbody tr:visible > :nth-child({number})")
        return [str(text) for text in cells.all_inner_texts()]


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    opened: list[Visit] = []

    def open_page(summary: Summary, width: int = 1280, scheme: str = "light") -> Visit:
        path = tmp_path / "report.html"
        write_report(path, summary)
        opened.append(Visit(browser, path, width, scheme))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.close()


SCENES = [
    finished_summary,
    bent_summary,
    running_summary,
    empty_summary,
    hostile_summary,
    narrowed_summary,
    ranking_summary,
    invalid_summary,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_page_is_quiet_self_contained_and_fits(visit: Open, scene: Callable[[], Summary]) -> None:
    seen = visit(scene(), 390)
    assert seen.overflow() <= 0
    seen.page.set_viewport_size({"width": 1280, "height": 900})
    seen.page.wait_for_timeout(200)
    assert seen.overflow() <= 0
    assert seen.complaints == []
    assert len(seen.requests) >= 1
    assert all(url.startswith(("file:", "data:", "blob:")) for url in seen.requests)
    assert seen.page.title() != "owned"


def test_plots_are_drawn(visit: Open) -> None:
    page = visit(finished_summary()).page
    page.wait_for_selector("#residuals svg.main-svg .points path")
    assert page.locator("#dose svg.main-svg path.js-line").count() >= 5
    assert page.locator("#dose svg.main-svg .points path").count() == 26
    assert page.locator("#check svg.main-svg .points path").count() == 50
    assert page.locator("#observed svg.main-svg .points path").count() == 26
    assert page.locator("#residuals svg.main-svg .points path").count() == 26
    assert page.locator(".graph .edge").count() == 3


def test_the_looks_are_drawn_with_what_was_asked(visit: Open) -> None:
    summary = narrowed_summary()
    page = visit(summary).page
    assert page.locator("#narrowing .points path").count() == len(summary.looks)
    assert page.locator("#narrowing .annotation-text").inner_html() == "asked: ± 0.1 %"
    assert page.locator("#forest").count() == 0


def test_causes_stand_side_by_side_the_largest_first(visit: Open) -> None:
    page = visit(ranking_summary()).page
    ticks = page.locator("#forest .ytick text").all_text_contents()
    assert [text.replace("from", " ").split()[0] for text in ticks] == ["cores", "size", "disk_kind"]
    assert page.locator("#forest .points path").count() == 3


def test_categories_have_no_curve_between_them(visit: Open) -> None:
    page = visit(ranking_summary()).page
    page.select_option("#factor", label="disk_kind")
    page.wait_for_function("document.querySelector('#dose .xtitle').textContent === 'disk_kind'")
    assert page.locator("#dose .xtick text").all_text_contents() == ["ssd", "hdd"]
    assert page.locator("#dose path.js-line").count() == 0


def test_residuals_can_be_seen_in_order(visit: Open) -> None:
    page = visit(finished_summary()).page
    assert page.locator("#residuals .xtitle").inner_html() == "fitted runtime (s)"
    page.select_option("#against", value="trial")
    page.wait_for_function("document.querySelector('#residuals .xtitle').textContent === 'trial'")


def test_the_factor_can_be_chosen(visit: Open) -> None:
    page = visit(finished_summary()).page
    axis = page.locator("#dose .xtitle")
    assert axis.inner_html() == "cpu_cores (core)"
    page.select_option("#factor", label="disk_read_rate")
    page.wait_for_function("document.querySelector('#dose .xtitle').textContent.startsWith('disk_read_rate')")
    assert "cpu_cores = 1 core" in page.locator("#dose-at").inner_text()


def test_the_table_sorts_and_filters(visit: Open) -> None:
    seen = visit(finished_summary())
    assert [int(text) for text in seen.column(1)] == list(range(1, 29))
    seen.page.click("#trials thead button:text('cpu_cores')")
    levels = [text.split("\n")[0] for text in seen.column(6)]
    assert levels == sorted(levels, key=lambda text: (text == "unlimited", text))
    assert len(set(levels)) == 4
    seen.page.click("#trials thead button:text('Trial')")
    seen.page.click("#trials thead button:text('Trial')")
    assert [int(text) for text in seen.column(1)] == list(range(28, 0, -1))
    assert seen.page.locator("th[aria-sort=descending]").inner_text().startswith("Trial")
    seen.page.select_option("#state", value="failed")
    assert seen.column(1) == ["2"]
    assert seen.page.locator("#shown").inner_text() == "1 shown"


def test_dark_and_light_differ_and_can_be_switched(visit: Open) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('#observed .points path')).fill"
    light, dark = visit(finished_summary()).page, visit(finished_summary(), scheme="dark").page
    assert light.evaluate(colour) != dark.evaluate(colour)
    assert light.evaluate(line) != dark.evaluate(line)
    expected = dark.evaluate(colour)
    light.click("#theme")
    assert light.evaluate(colour) == expected
    assert light.evaluate(line) == dark.evaluate(line)
    assert light.locator("#theme").inner_text() == "Light"


def test_nothing_hostile_runs(visit: Open) -> None:
    page = visit(hostile_summary()).page
    assert page.title().startswith("<script>")
    page.hover("#check .points path >> nth=0", force=True)
    assert page.locator("img").count() == 0
    assert page.title().startswith("<script>")
