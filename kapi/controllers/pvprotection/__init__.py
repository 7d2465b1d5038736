"""Keeps volumes that are being deleted while they are bound (upstream: ``pkg/controller/volume/pvprotection``)."""
