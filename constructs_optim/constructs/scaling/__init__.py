"""Scaling with Application Auto Scaling: target tracking, steps and schedules."""
