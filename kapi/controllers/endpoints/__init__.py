"""Keeps the Endpoints of Services with a selector (upstream: ``pkg/controller/endpoint``)."""
