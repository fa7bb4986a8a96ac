"""The availability and style of plots."""

from __future__ import annotations

import importlib.util
from pathlib import Path

HAS_PLOTS = importlib.util.find_spec("matplotlib") is not None
"""Whether plots can be drawn: matplotlib is an optional dependency."""
PLOT_STYLE = Path(__file__).with_name("report.mplstyle")
"""matplotlib's settings for the plots."""
