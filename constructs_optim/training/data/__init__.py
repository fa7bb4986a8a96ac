"""Reads the training data, and converts it to tokens."""
