"""Discovery: documents about the served groups, versions and resources, legacy and aggregated."""
