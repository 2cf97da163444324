"""The icons of the plugin's pages and tabs in the Airflow UI, as SVG."""

from __future__ import annotations

from typing import Literal

Icon = Literal[
    "light",
    "dark",
    "matrix-light",
    "matrix-dark",
    "sentinel-light",
    "sentinel-dark",
    "report-light",
    "report-dark",
    "data-docs-light",
    "data-docs-dark",
]
"""The name of an icon: what it belongs to, and the theme of the UI. The icon of the page Delivery has only a theme."""
_DRAWINGS = {
    "": "M4 7l8-4 8 4v10l-8 4-8-4zM8.5 12l2.5 2.5 5-5",  # shows a record that arrived
    "matrix": "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13.5 16.5l2.5 2.5 4.5-5",  # shows scenarios and a check mark
    "sentinel": "M4 18h16M7 18v-5M12 18V7M17 18v-8",  # shows results over time
    "report": "M5 3h10l4 4v14H5zM8.5 14l2.5 2.5 5-5M9 8h4",  # shows a page with a check mark
    "data-docs": "M6 3h12v18H6zM9 8h6M9 12h6M9 16h3",  # shows a page of lines
}
"""The SVG path of each icon."""
_INK = {"light": "#44598a", "dark": "#d4d4d8"}
_HALO = {"light": "#ffffff", "dark": "none"}
"""The colour around the lines. In the light theme, the chosen entry has a blue background, on which blue lines without
another colour around them would be invisible."""


def svg(icon: Icon) -> str:
    """Returns the icon as an SVG document."""
    name, _, theme = icon.rpartition("-")
    lines = 'fill="none" stroke-linecap="round" stroke-linejoin="round"'
    paths = "".join(
        f'<path {lines} stroke="{colour}" stroke-width="{width}" d="{_DRAWINGS[name]}"/>'
        for colour, width in ((_HALO[theme], 4.5), (_INK[theme], 1.8))
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">{paths}</svg>'
