"""Resources of the API group 'discovery.k8s.io'."""
