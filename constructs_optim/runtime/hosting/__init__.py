"""The current state of endpoints, and the registration of their scaling."""
