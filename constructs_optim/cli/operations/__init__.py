"""Commands on an account: artifacts, jobs, endpoints, and the preview of dashboards."""
