"""Is a window of accumulation open, or will no step ever come? A whole epoch on a copy tells."""

import time
import warnings

from labkit import randomness
from labkit.doctor.program import Program

SECONDS = 1.5


def batches_without_a_step(program: Program) -> int:
    """Return how many batches of an epoch left every weight as it was; 0 if one moved, or if time ran out before.

    Whoever writes into a tensor raises its version, so no values need to be compared until the end.
    """
    copy, passed, begin = program.copy(), 0, time.thread_time()
    parameters = list(copy.model.parameters())
    versions, values = [p._version for p in parameters], [p.detach().clone() for p in parameters]
    try:
        with randomness.frozen_randomness(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copy.model.train()
            for batch in copy.train_loader:
                copy.step(batch)
                passed += 1
                if [p._version for p in parameters] != versions or time.thread_time() - begin > SECONDS:
                    return 0
    except Exception:  # the recording has told what the user's step raises
        return 0
    return passed if all(p.equal(value) for p, value in zip(parameters, values, strict=True)) else 0
