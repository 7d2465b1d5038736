"""Resources of the API group 'apiextensions.k8s.io'."""
