"""The HTML report of a Result: one file, no network, light, dark, phone and print."""

from warpsim.report.page import html

__all__ = ["html"]
