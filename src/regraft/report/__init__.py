"""The report of a run: one HTML file to look at and to pass on."""

from __future__ import annotations

from regraft.report.writing import write_report

__all__ = ["write_report"]
