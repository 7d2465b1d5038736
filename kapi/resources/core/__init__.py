"""Resources of the API group 'core'."""
