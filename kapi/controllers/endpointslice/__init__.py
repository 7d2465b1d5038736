"""Keeps the EndpointSlices of Services with a selector (upstream: ``pkg/controller/endpointslice``, KEP-752)."""
