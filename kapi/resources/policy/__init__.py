"""Resources of the API group 'policy'."""
