"""The API servers of a cluster, announced by Leases (upstream: ``pkg/controlplane/controller/apiserverleasegc``, KEP-1965)."""
