"""``constructs-optim adopt``: declarations for existing endpoints."""
