"""Dynamic admission: webhooks (upstream: apiserver ``admission/plugin/webhook``)."""
