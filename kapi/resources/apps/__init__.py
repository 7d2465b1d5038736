"""Resources of the API group 'apps'."""
