"""Discovery: what the server serves, in the legacy documents and in the aggregated one."""
