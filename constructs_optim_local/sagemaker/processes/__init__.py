"""Containers as processes of this machine: those of training jobs, and those behind endpoints."""
