"""Starts a plan on the CPU of this machine, with few layers and dummy weights."""
