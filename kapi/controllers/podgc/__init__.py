"""Removes pods that nobody looks after any more (upstream: ``pkg/controller/podgc``)."""
