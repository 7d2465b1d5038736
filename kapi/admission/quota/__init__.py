"""ResourceQuota: what objects use, whether that fits, and the bookkeeping (upstream: apiserver ``admission/plugin/resourcequota``)."""  # noqa: E501
