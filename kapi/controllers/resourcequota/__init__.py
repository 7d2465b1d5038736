"""Recalculates what quotas say is used."""
