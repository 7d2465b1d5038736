"""Resources of the API group 'apiregistration.k8s.io'."""
