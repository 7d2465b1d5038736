"""Empties namespaces that are going away."""
