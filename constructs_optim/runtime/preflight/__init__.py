"""Preflight: checks, before a deployment starts anything, for problems that would fail it hours later."""
