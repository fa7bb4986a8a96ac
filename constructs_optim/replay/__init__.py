"""Replays recorded traffic through declared endpoints without deploying them: its cost, and the latencies.

This is a discrete-event simulation of requests, copies and scaling. Copies behave as forecast
(``constructs_optim.recipe.forecast``). Alarms, policies, cool-downs and schedules are the local cloud's.
"""
