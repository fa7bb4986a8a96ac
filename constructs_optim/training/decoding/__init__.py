"""Decoding with heads, and what shows that they change nothing but the speed."""
