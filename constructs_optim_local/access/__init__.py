"""Who may do what: credentials of this cloud, the permissions that a request needs, and a log of decisions."""
