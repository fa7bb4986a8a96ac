"""Access control: this cloud's credentials, the permissions that a request needs, and a log of decisions."""
