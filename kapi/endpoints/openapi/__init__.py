"""OpenAPI documents, made when they are first requested."""
