"""Commands on recipes: plan one, recommend some, and list what the planner knows."""
