"""The only modules that import ministack's private names."""
