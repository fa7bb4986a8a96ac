"""Where the copies of inference components find room."""

from __future__ import annotations

from collections.abc import Sequence

from constructs_optim.recipe.catalog.instances import InstanceRow

from .options import Component


def instances_for_copies(components: Sequence[Component], row: InstanceRow) -> int:
    """How many instances of a type hold all copies: the largest placed first, each where it finds room (first fit).

    SageMaker does not publish how it places copies; this is never fewer than the least that could hold them.
    """
    free: list[tuple[int, int]] = []
    copies = sorted(((c.accelerators, c.memory_mib) for c in components for _ in range(c.copies)), reverse=True)
    for accelerators, memory in copies:
        for place, (some, rest) in enumerate(free):
            if accelerators <= some and memory <= rest:
                free[place] = (some - accelerators, rest - memory)
                break
        else:
            free.append((row.parallel_units - accelerators, row.memory_mib - memory))
    return len(free)
