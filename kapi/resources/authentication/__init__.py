"""Resources of the API group 'authentication.k8s.io'."""
