"""The code in a training container: it fine-tunes models, trains Medusa heads, copies and quantizes models.

The folder is shipped unchanged and can be imported under any name: its imports are relative, and of the rest of this
library it uses only ``runtime/model_files.py``, which is shipped beside it. A training job starts a script such as
``fine_tune.py`` or ``train_heads.py`` as a file. ``settings``, ``job_log`` and ``errors`` need only the standard
library, because recipes import them. ``trainers`` holds the trainings, ``data`` and ``model`` their inputs and outputs,
and ``decoding`` measures the speed-up and checks that the outputs stay the same.

Source of the method: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(arXiv 2401.10774), section 2.2.1: Medusa-1, a frozen backbone.
"""
