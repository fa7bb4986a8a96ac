"""Containers of training jobs and endpoints, as processes of this machine."""
