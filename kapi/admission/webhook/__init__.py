"""Dynamic admission: webhooks that others run (upstream: apiserver ``admission/plugin/webhook``)."""
