"""What is trained on: reading conversations, and turning them into tokens."""
