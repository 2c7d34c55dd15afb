"""The report of a fit: one HTML file."""

from hbm_learn.report.page import html, write

__all__ = ["html", "write"]
