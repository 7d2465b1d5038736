"""Puts right what crashes leave between Services and their addresses and ports."""
