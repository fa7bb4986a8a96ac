"""The basis of every service: checks against the API's model, errors in AWS's format, a log of calls."""
