"""Alarms: what state one is in, from the datapoints there are and the expressions over them."""
