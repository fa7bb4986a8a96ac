"""Evaluations of endpoints: benchmark jobs after deployments and on a schedule."""
