"""Keeps the flow control configuration that every cluster has, and says which schemas dangle."""
