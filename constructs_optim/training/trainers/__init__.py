"""The trainings, on transformers' Trainer: fine-tuning, heads, and the checkpoints of both."""
