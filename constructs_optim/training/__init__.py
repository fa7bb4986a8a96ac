"""What runs in a training container: fine-tuning, and Medusa heads on the model that was fine-tuned.

The folder is shipped as it is and importable under any name: it imports itself relatively, and nothing of the rest of
this library. A training job starts ``fine_tune.py`` or ``train_heads.py`` as a file. ``settings``, ``job_log`` and
``errors`` need the standard library alone: recipes read them. ``trainers`` holds the trainings, ``data`` and ``model``
what they work on, ``decoding`` shows the speed-up and that the outputs stay the same.

Source of the method: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(arXiv 2401.10774), section 2.2.1: Medusa-1, a frozen backbone.
"""
