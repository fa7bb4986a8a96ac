"""A local cloud's server process: authentication, the record of functions' calls, and the control interface."""
