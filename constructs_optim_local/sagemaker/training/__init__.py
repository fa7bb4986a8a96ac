"""Training jobs, whose code runs as processes of this machine."""
