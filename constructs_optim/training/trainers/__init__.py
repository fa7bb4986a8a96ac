"""The trainings themselves, on transformers' Trainer: fine-tuning, heads, and the checkpoints of both."""
