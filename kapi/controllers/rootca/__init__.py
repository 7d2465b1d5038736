"""Publishes the API server's CA in every namespace."""
