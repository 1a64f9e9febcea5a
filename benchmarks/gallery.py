"""Run the gallery's scripts and keep what they print and draw in docs/gallery, for the site.

python benchmarks/gallery.py [NAME ...]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import HERE, machine

SCRIPTS = HERE.parent / "gallery"
OUT = HERE.parent / "docs" / "gallery"


def run(script: Path) -> None:
    """Run a script in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script)]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        OUT.mkdir(exist_ok=True)
        printed = f"{done.stdout.rstrip()}\n\n({machine()})\n"
        (OUT / f"{script.stem}.txt").write_text(printed, encoding="utf-8")
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, OUT / picture.name)


def main() -> None:
    for script in sorted(SCRIPTS.glob("*.py")):
        if not sys.argv[1:] or script.stem in sys.argv[1:]:
            print(f"{script.stem} …", flush=True)
            run(script)


if __name__ == "__main__":
    main()
