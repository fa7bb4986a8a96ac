"""What ends a synthesis with an error: templates that are too large, and findings of policies."""
