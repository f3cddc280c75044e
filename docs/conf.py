"""The settings of the site: Sphinx reads the Markdown pages where they are, and warns of each link that leads nowhere."""

from __future__ import annotations

project = "gpushare"
project_copyright = "The gpushare authors"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "gpushare/*.md",
    "fake_nvml/*.md",
    "clusters/**.md",
    "e2e/**.md",
    "load/**.md",
]
# Headings can be linked to, as on GitHub.
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"page_width": "75rem", "sidebar_width": "18rem", "description": "Pods share a GPU on Kubernetes"}
html_show_sphinx = False
