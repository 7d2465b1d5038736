"""Mutations of the code that a test should notice: ``python -m tests.mutants``."""
