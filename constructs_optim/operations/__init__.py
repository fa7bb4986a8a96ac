"""What an operator does by hand with jobs and artifacts: look, watch, stop, check, clear away.

Reads and writes the records that the runtime's handlers keep, by the same rules. Prints nothing: what is found is
returned as data, which the command line presents.
"""
