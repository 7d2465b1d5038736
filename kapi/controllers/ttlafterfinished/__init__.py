"""Deletes Jobs some time after they have finished (upstream: ``pkg/controller/ttlafterfinished``, KEP-592)."""
