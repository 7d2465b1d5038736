"""Attacks on a running server: each class of attack that the API server's history knows, and what kapi answers."""
