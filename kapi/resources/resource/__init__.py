"""Resources of the API group 'resource.k8s.io'."""
