"""kapi."""
