"""Write docs/figures/report.png: the first screen of the demo's report.

python benchmarks/report_picture.py [--report DIR] [--out docs/figures/report.png]

DIR holds a report.html that `regraft demo --html` wrote; without it, the demo runs first. Needs
playwright and Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "report.png"
WIDTH = 900  # pixels of the page
_MARGIN = 18  # below the factor's pictures


def take_picture(browser: Any, report: Path, out: Path) -> None:
    """Draw the page from its title to the pictures at both ends of the hidden factor."""
    page = browser.new_context(viewport={"width": WIDTH, "height": 900}).new_page()
    page.goto(report.resolve().as_uri())
    ends = page.locator(".columns").first.bounding_box()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": ends["y"] + ends["height"] + _MARGIN}
    page.screenshot(path=out, clip=clip, full_page=True)
    page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        if given.report is None:
            demo = [sys.executable, "-m", "regraft", "demo", "--out", folder, "--html", "--quiet"]
            subprocess.run(demo, check=True)
        names = "chromium", "chromium-browser", "google-chrome"
        chromium = next(filter(None, map(shutil.which, names)), None)
        # Chromium's own sandbox does not work for root, as whom containers run.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=chromium, args=arguments)
        take_picture(browser, (given.report or Path(folder)) / "report.html", given.out)
        browser.close()
    print(given.out)


if __name__ == "__main__":
    main()
