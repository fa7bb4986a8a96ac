"""A stack declared in a file, with all its constructs."""
