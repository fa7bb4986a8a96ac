"""Shadow runs: two variants' answers to the same requests, compared by tests with bounded error rates."""
