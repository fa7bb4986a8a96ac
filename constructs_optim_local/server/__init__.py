"""The process of a local cloud: authentication, the record of functions' calls and the control interface."""
