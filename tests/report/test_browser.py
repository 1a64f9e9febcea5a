"""Reports in a real browser: nothing is loaded, nothing overflows, names from data stay text.

Screenshots are left in the folder ``artefacts`` of the project.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report_picture import WIDTH, take_picture
from tests.helpers.commands import Once, RunOnce, call
from tests.helpers.hostile_table import HOSTILE, write_hostile_table
from tests.helpers.paths import ROOT

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ARTEFACTS = ROOT / "artefacts"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"
)
WIDTHS = (1280, 768, 390)

# What is written in a chart, and lies on something else that is written there.
OVERLAPPING = """() => [...document.querySelectorAll(".chart svg")].flatMap((svg) => {
  const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim());
  const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
  const inside = svg.getBoundingClientRect();
  const cut = boxes.filter(([, a]) => a.left < inside.left - 1 || a.right > inside.right + 1
    || a.bottom > inside.bottom + 1);
  const pairs = boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2
  ).map(([other]) => `${name} | ${other}`));
  return [...cut.map(([name]) => `cut: ${name}`), ...pairs];
})"""
FINDINGS = """async () => (await axe.run()).violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 80))}`)"""

# Elements that stick out of the page, but for what is in a box that scrolls by itself.
OVERFLOWING = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".table") && e.id !== "vg-tooltip-element")
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def demo(run_once: RunOnce) -> Path:
    return run_once("demo", "demo", "--html")[0]


@pytest.fixture(scope="module")
def hostile(once: Once) -> Path:
    """Everything that can be known about a table with hostile names, in one folder."""

    def make(out: Path) -> None:
        out.mkdir(exist_ok=True)
        table = out / "table.csv"
        write_hostile_table(table)
        call(["fit", table, "--out", out, "--html", "--quiet"])
        call(["audit", out, table, "--out", out, "--quiet"])
        call(["compare", table, "--radii", 1, "--out", out, "--quiet"])
        call(["abduct", table, "--out", out, "--quiet"])
        call(["diagnose", table, "--out", out, "--html", "--quiet"])

    return once("hostile", make)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Chromium's own sandbox does not work for root, as whom containers run.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


class Watched:
    """A page, and what it did that a report must not do."""

    def __init__(self, chromium: Any, folder: Path, **settings: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = chromium.new_context(**settings).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((folder / "report.html").as_uri())
        # Charts in folded sections are drawn when these are opened.
        self.page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
        charts = self.page.locator("figure").count()
        playwright.expect(self.page.locator("figure[data-drawn] svg.marks")).to_have_count(charts)


@pytest.fixture
def watch(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open the report in a folder; at the end it must have kept quiet and alone."""
    opened: list[Watched] = []

    def open_report(folder: Path, width: int = 1280, **settings: Any) -> Any:
        view = {"width": width, "height": 900}
        opened.append(Watched(chromium, folder, viewport=view, **settings))
        return opened[-1].page

    yield open_report
    for watched in opened:
        watched.page.context.close()
        assert watched.complaints == []
        assert len(watched.requests) == 1, watched.requests


@pytest.mark.parametrize("name", ["demo", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(
    watch: Callable[..., Any], name: str, scheme: str, width: int, request: pytest.FixtureRequest
) -> None:
    page = watch(request.getfixturevalue(name), width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(OVERLAPPING) == []
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"report_{name}_{width}_{scheme}.png", full_page=True)


@pytest.mark.parametrize("name", ["demo", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    watch: Callable[..., Any], name: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    reason = "axe-core is not installed: pip install axe-playwright-python"
    axe = Path(pytest.importorskip("axe_playwright_python", reason=reason).__file__)
    page = watch(request.getfixturevalue(name), 390, color_scheme=scheme)
    page.evaluate(axe.with_name("axe.min.js").read_text(encoding="utf-8"))
    assert page.evaluate(FINDINGS) == []


def test_keys_reach_and_move_everything(demo: Path, chromium: Any) -> None:
    page = chromium.new_context(viewport={"width": 390, "height": 900}).new_page()
    page.goto((demo / "report.html").as_uri())
    page.locator(".slider input").wait_for()
    wanted = page.locator("button, summary, a, input, .table").filter(visible=True).count()
    seen = set()
    for _ in range(wanted):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
        )
    assert len(seen) == wanted and -1 not in seen
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert "light" in page.locator("#theme").inner_text()
    summary = page.locator("details.section > summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.section").first.get_attribute("open") is not None
    box = page.locator(".table").filter(visible=True).last
    box.focus()
    slider, output = page.locator(".slider input"), page.locator(".slider output")
    slider.focus()
    before = output.inner_text()
    rule = page.locator(".slider svg .mark-rule line").last
    place = rule.evaluate("(e) => e.getBoundingClientRect().left")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert page.locator(".slider label").inner_text().endswith("60%")
    assert output.inner_text() != before and slider.input_value() == "60"
    assert rule.evaluate("(e) => e.getBoundingClientRect().left") > place
    audits = json.loads((demo / "demo.json").read_text())["audits"]
    page.keyboard.press("End")
    for name, audit in audits.items():
        last = audit["groups"][-1]
        assert f"{name} {100 * last['accuracy']:.1f}%" in output.inner_text()
    page.screenshot(path=ARTEFACTS / "report_demo_slider.png")
    page.context.close()


def test_charts_stand_without_scripts(demo: Path, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((demo / "report.html").as_uri())
    assert page.locator(".slider .static svg").is_visible()
    assert not page.locator(".slider .control").is_visible()
    assert page.locator(".static svg").count() == page.locator("figure").count()
    context.close()


def test_all_that_was_asked_for_is_there(demo: Path, watch: Callable[..., Any]) -> None:
    page = watch(demo)
    headings = page.locator("h2, h3").all_inner_texts()
    for title in (
        "The hidden factor", "How it is tied to the label", "Each head in each group",
        "If the factor becomes more or less common", "Domain by domain",
        "The game, round by round", "The certificate", "The premises",
        "How to get this again",
    ):  # fmt: skip
        assert any(title in heading for heading in headings), title
    shown = page.locator(".strip img")
    assert shown.count() == 24  # six of each class at either end
    assert shown.evaluate_all("all => all.every((one) => one.naturalWidth === 28)")
    row = json.loads((demo / "demo.json").read_text())["rows"][0]
    assert f"{100 * row['target_accuracy']:.1f}%" in page.locator(".answer").first.inner_text()
    marked = page.locator("table", has_text="Accuracy by domain").locator("tr.marked")
    cro = json.loads((demo / "demo.json").read_text())["rows"][-1]
    worst = min(cro["target_accuracy"], *cro["by_source"].values())
    assert marked.count() == 1 and f"▼ {100 * worst:.1f}%" in marked.inner_text()
    certified = json.loads((demo / "demo.json").read_text())["certificate"]
    again = f"{100 * certified['source_accuracy']:.1f}%"  # by cross-validation on fewer rows
    assert again not in page.locator("main").inner_text()  # one accuracy for one head
    assert page.locator("pre").first.inner_text() == f"regraft demo --out {demo} --html"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_robust_model_is_seen_without_scrolling(
    demo: Path, watch: Callable[..., Any], width: int
) -> None:
    box = watch(demo, width).locator(".table", has_text="Accuracy by domain").first
    heads = box.locator("thead th")
    assert heads.all_inner_texts()[:2] == ["domain", "CRO"]
    edge = box.evaluate("(e) => e.getBoundingClientRect().right")
    seen = heads.all() if width == 1280 else heads.all()[:3]
    assert all(each.evaluate("(e) => e.getBoundingClientRect().right") <= edge for each in seen)
    names = box.locator("tbody th")  # which break between words only
    assert names.evaluate_all("all => all.every((e) => e.scrollWidth <= e.clientWidth)")
    assert names.first.evaluate("(e) => getComputedStyle(e).overflowWrap") == "break-word"


def test_hovering_tells_the_values(demo: Path, watch: Callable[..., Any]) -> None:
    page = watch(demo)
    figure = page.locator("figure", has_text="Accuracy in each group on held-out rows").first
    figure.scroll_into_view_if_needed()
    mark = figure.locator("svg.marks .mark-symbol path").first
    mark.hover()
    tooltip = page.locator("#vg-tooltip-element")
    playwright.expect(tooltip).to_be_visible()
    audits = json.loads((demo / "demo.json").read_text())["audits"]
    told = tooltip.inner_text()
    names = [each["name"] for audit in audits.values() for each in audit["groups"]]
    assert any(name in told for name in names)
    page.screenshot(path=ARTEFACTS / "report_demo_hover.png")


def test_the_picture_of_the_documentation_shows_the_answer_and_the_factor(
    demo: Path, chromium: Any, tmp_path: Path
) -> None:
    out = tmp_path / "report.png"
    take_picture(chromium, demo / "report.html", out)
    taken = out.read_bytes()
    assert taken.startswith(b"\x89PNG")
    width, height = (int.from_bytes(taken[i : i + 4]) for i in (16, 20))
    assert width == WIDTH and 600 < height < 1100  # it ends above the slider


def _ground_and_ink(page: Any) -> tuple[str, str]:
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.querySelector('.chart svg text')).fill")
    return ground, ink


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_can_be_chosen_and_charts_follow(
    demo: Path, watch: Callable[..., Any], scheme: str
) -> None:
    page = watch(demo, color_scheme=scheme)
    button = page.get_by_role("button")
    seen = {"auto": _ground_and_ink(page)}
    for theme in ("light", "dark"):
        button.click()
        assert theme in button.inner_text()
        seen[theme] = _ground_and_ink(page)
    assert seen["auto"] == seen[scheme]
    assert seen["light"][0] != seen["dark"][0] and seen["light"][1] != seen["dark"][1]
    button.click()
    assert "auto" in button.inner_text() and _ground_and_ink(page) == seen["auto"]


def test_paper_is_white(demo: Path, watch: Callable[..., Any]) -> None:
    page = watch(demo, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("button").is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_names_from_data_show_as_text(hostile: Path, watch: Callable[..., Any]) -> None:
    page = watch(hostile)
    body = page.locator("body").inner_text()
    for name in HOSTILE:
        assert name in body
    assert page.locator("main img, main b[onmouseover], main i").count() == 0
    chart = page.locator("figure", has_text="Accuracy on the domain left out").first
    labels = " ".join(chart.locator("svg text").all_text_contents())
    assert "<script>" in labels


@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_it_is_small(name: str, request: pytest.FixtureRequest) -> None:
    assert (request.getfixturevalue(name) / "report.html").stat().st_size < 3_000_000
