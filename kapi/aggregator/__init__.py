"""The aggregator: group versions that other servers serve, beside our own (upstream: kube-aggregator)."""
