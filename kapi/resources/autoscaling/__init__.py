"""Resources of the API group 'autoscaling'."""
