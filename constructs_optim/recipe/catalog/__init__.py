"""What is known of models, instances and images: data files with source and date, and their look-ups.

``docs/catalog.md`` says where each file comes from and how to refresh it.
"""
