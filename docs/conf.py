"""Sphinx settings: ``sphinx-build -W docs OUT`` for the pages, ``sphinx-build -W -b man docs etc`` for the manual page."""

import kapi

project = "kapi"
author = "the kapi developers"
version = release = kapi.__version__
extensions = ["sphinx.ext.autodoc"]
autodoc_typehints = "description"
html_theme = "furo"
exclude_patterns = ["_build"]
today = f"kapi {version}"  # in place of a date: the page changes when its text does
man_pages = [("man/kapi", "kapi", "a Kubernetes API server", "", 8)]
