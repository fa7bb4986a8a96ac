"""What an operator does with jobs and artifacts: list, watch, stop, verify and prune them.

Reads and writes the records that the runtime's handlers keep, by the same rules. Prints nothing: what is found is
returned as data, which the command line presents.
"""
