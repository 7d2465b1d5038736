"""Sphinx settings."""

project = "kapi"
extensions: list[str] = []
html_theme = "alabaster"
exclude_patterns = ["_build"]
