"""Tests of the replay of traffic."""
