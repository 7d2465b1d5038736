"""Deletes the objects of terminating namespaces."""
