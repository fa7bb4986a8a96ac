"""``constructs-optim adopt``: endpoints that exist, as declarations."""
