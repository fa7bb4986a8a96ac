"""What deploying a synthesized app comes to, in words: read from templates, without a cloud."""
