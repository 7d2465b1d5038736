"""Gives every namespace its default ServiceAccount."""
