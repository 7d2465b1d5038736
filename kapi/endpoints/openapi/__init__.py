"""OpenAPI documents, made when first asked for."""
