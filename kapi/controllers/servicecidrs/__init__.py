"""Says which ranges Services may use, and keeps ranges whose addresses are in use."""
