"""Keeps claims that are asked to go until no pod uses them (upstream: ``pkg/controller/volume/pvcprotection``)."""
