"""Decoding with heads, and the check that they change nothing but the speed."""
