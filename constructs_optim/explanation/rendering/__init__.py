"""Renders a report: the outline that every rendering follows, and Markdown."""
