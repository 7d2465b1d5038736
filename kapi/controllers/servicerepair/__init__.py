"""Repairs inconsistencies between Services and their addresses and ports, which a crash may leave."""
