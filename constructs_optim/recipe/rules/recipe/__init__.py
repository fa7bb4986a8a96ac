"""Rules about what is made of a model: source, techniques, container, memory, instance type."""
