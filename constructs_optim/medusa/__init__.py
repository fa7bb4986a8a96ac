"""What runs in a training container: Medusa-1, fine-tuning first and then heads on the frozen model.

The folder is shipped as it is and importable under any name: it imports itself relatively, and nothing of the rest of
this library. ``fine_tune.py`` and ``train_heads.py`` are what a training job starts; ``verification`` shows the
speed-up and that the outputs stay the same.

Source of the method: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(arXiv 2401.10774), section 2.2.1: Medusa-1, a frozen backbone.
"""
