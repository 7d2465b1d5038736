"""Printers of objects, lists and tables, one format in each module (upstream: cli-runtime ``printers``)."""
