"""Basic values and rules, used by all other packages (upstream: ``k8s.io/apimachinery``).

Here belong quantities, times, names, selectors, field paths, API errors: pure modules that know neither types nor Twisted.
Not here: JSON and YAML (``kapi.codecs``), types (``kapi.schema``).
Start reading with ``status.py`` and ``field.py``.
"""
