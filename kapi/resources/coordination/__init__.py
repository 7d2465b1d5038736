"""Resources of the API group 'coordination.k8s.io'."""
