"""Decoding with heads, and the check that they change only the speed."""
