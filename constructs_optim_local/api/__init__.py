"""What every service stands on: requests checked against the API's model, errors as AWS writes them, a log of calls."""
