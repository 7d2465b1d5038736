"""Keeps claims that are being deleted until no pod uses them (upstream: ``pkg/controller/volume/pvcprotection``)."""
