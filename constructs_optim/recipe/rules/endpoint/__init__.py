"""Rules about how an endpoint is hosted, scaled, updated and watched."""
