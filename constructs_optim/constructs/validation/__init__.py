"""What ends a synthesis with an error: broken rules, arguments of the wrong type, too large templates, policies."""
