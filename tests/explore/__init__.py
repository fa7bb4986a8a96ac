"""Interleavings of the artifact store's protocol: the real handlers and the real pruner in a world in memory.

``world.py`` is AWS as far as they see it, ``actors.py`` is who acts in it (CloudFormation with its stacks, Lambda, the
state machine, prune), ``scheduler.py`` decides who goes on at each call to AWS, and ``invariants.py`` says what must
hold. A life is one run from a seed; the same seed is the same life.
"""
