"""Metrics, alarms and dashboards of endpoints."""
