"""Resources of the API group 'networking.k8s.io'."""
