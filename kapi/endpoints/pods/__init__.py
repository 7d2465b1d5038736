"""Subresources of pods that are not plain objects."""
