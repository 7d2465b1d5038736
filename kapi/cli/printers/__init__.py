"""Printers: an object, a list or a table as text, one form in each module (upstream: cli-runtime ``printers``)."""
