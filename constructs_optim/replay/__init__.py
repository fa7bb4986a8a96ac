"""Recorded traffic through declared endpoints, without deploying them: what it would have cost, and how fast it was.

A discrete-event simulation of requests, copies and scaling. What a copy does is the forecast
(:mod:`constructs_optim.recipe.forecast`); alarms, policies, cooldowns and schedules are those of the local cloud.
"""
