"""Shadow runs: what two variants answered to the same requests, compared by tests whose errors are held."""
