"""Commands for recipes: plan a recipe, recommend recipes, and list the planner's catalog."""
