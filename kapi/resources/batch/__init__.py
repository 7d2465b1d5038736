"""Resources of the API group 'batch'."""
