"""``constructs-optim explain``: the command, what it looks up, and how it prints."""
