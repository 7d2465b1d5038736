"""Which API servers there are, told by Leases (upstream: ``pkg/controlplane/controller/apiserverleasegc``, KEP-1965)."""
