from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from insitu.orchestrator.report.page import render_report, write_report
from tests.report.scenes import HOSTILE, empty_summary, finished_summary, hostile_summary


class Outline(HTMLParser):
    """Counts elements and keeps what they link to and say, outside of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [link or "" for name, link in attrs if name in ("src", "href", "action", "data")]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] not in ("script", "style"):
            self.text += data


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    return parser


def test_the_page_links_to_nothing() -> None:
    found = outline(render_report(finished_summary()))
    assert [link for link in found.links if link not in ("#main", "data:,")] == []
    assert found.tags.count("script") == 3
    assert not {"iframe", "img", "object", "embed"} & set(found.tags)


def test_hostile_names_stay_text() -> None:
    page = render_report(hostile_summary())
    found, harmless = outline(page), outline(render_report(finished_summary()))
    assert HOSTILE not in page
    assert HOSTILE in found.text
    assert found.tags.count("script") == harmless.tags.count("script")
    assert "img" not in found.tags
    assert found.handlers == []


def test_the_policy_lets_only_the_pages_own_scripts_run() -> None:
    page = render_report(finished_summary())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    directives = policy[1].replace("&#39;", "'")
    assert directives.startswith("default-src 'none'")
    assert re.search(r"script-src 'sha256-[^']+' 'sha256-[^']+';", directives)


def test_tables_have_headers_and_sections_have_names() -> None:
    found = outline(render_report(finished_summary()))
    assert found.tags.count("main") == found.tags.count("header") == found.tags.count("h1") == 1
    assert found.tags.count("section") == found.tags.count("h2")
    for row in ("cpu_cores missed its level", "replaces 1", "namespaces,overlay", "6.18.0"):
        assert row in found.text


def test_a_page_without_a_fit_says_why(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", empty_summary())
    page = (tmp_path / "report.html").read_text()
    assert "The law is not fitted: 0 valid trials are too few" in page
    assert "No trial is planned yet" in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
