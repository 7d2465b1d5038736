"""Endpoints, asked over an API server in memory."""
