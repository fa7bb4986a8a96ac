"""The process of a local cloud: its gate, the record of functions' calls and the control interface."""
