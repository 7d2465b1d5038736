"""Random requests to two API servers, and what they answer differently."""
