"""A stack as a file declares it, with all of its constructs."""
