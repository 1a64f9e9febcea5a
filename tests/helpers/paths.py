"""Where the project's folders and the real data are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SHARED = ROOT.parent / "shared" / "data"  # may be absent: tests that need it are then skipped
