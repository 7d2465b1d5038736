"""ResourceQuota: the usage of objects, its check and its accounts (upstream: apiserver ``admission/plugin/resourcequota``)."""
