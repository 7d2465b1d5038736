"""Which API servers there are, announced by Leases (upstream: ``pkg/controlplane/controller/apiserverleasegc``, KEP-1965)."""
