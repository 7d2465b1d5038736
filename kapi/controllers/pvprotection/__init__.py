"""Keeps volumes that are asked to go while they are bound (upstream: ``pkg/controller/volume/pvprotection``)."""
