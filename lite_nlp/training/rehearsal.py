"""The choice of threads at the start of training: the run's own first batch, measured without a trace."""

import os
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import torch
from accelerate import Accelerator

from lite_nlp.export.runtime.device import usable_cores
from lite_nlp.training.batching import Work
from lite_nlp.training.objective import Batches
from lite_nlp.training.processes import sum_over_processes
from lite_nlp.training.stepper import Stepper
from lite_nlp.training.threads import ThreadChoice, fixed_threads, measure_threads

__all__ = ["choose_threads"]

B = TypeVar("B")

#: Longest rehearsal of a batch, in seconds; of a longer one a part is measured.
_LONGEST: Final = 0.5
#: This part of the rows tells how long the whole batch will take.
_PART: Final = 8


def choose_threads(
    stepper: Stepper[B],
    batches: Batches[B],
    step: Sequence[Work],
    *,
    accelerator: Accelerator,
    asked: int | None,
    before: int | None,
) -> ThreadChoice:
    """Set the number of torch's threads; weights, optimizer and random numbers stay as they are.

    Args:
        stepper: The run's steps.
        batches: Its batches.
        step: The next step, of which one batch is measured.
        accelerator: The processes; all of them get the choice of the first.
        asked: The caller's number.
        before: The number with which the run began; None if it has just begun.
    """
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", accelerator.num_processes))
    choice = fixed_threads(asked, processes=processes)
    if choice is None and before is not None:
        choice = ThreadChoice(threads=before, cores=max(1, usable_cores() // processes), reason="as the run began")
    if choice is None and accelerator.device.type != "cpu":
        threads = torch.get_num_threads()
        choice = ThreadChoice(threads=threads, cores=usable_cores(), reason=f"training on {accelerator.device.type}")
    if choice is None:
        work = step[accelerator.process_index % len(step)]
        batch = _short_batch(stepper, batches, work)
        choice = measure_threads(lambda: stepper.rehearse(batch), processes=processes)
    # OMP_NUM_THREADS and the cores are the same in all processes, so either all of them have measured or none.
    if choice.rates and accelerator.num_processes > 1:
        mine = choice.threads if accelerator.is_main_process else 0
        (shared,) = sum_over_processes(accelerator, [float(mine)])
        choice = ThreadChoice(threads=int(shared), cores=choice.cores, rates=choice.rates)
    torch.set_num_threads(choice.threads)
    return choice


def _short_batch(stepper: Stepper[B], batches: Batches[B], work: Work) -> B:
    """The batch, or as many of its rows as one thread takes half a second for."""
    rows = work.rows
    part = batches.load(rows[: max(1, len(rows) // _PART)], 0)
    torch.set_num_threads(1)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        stepper.rehearse(part)
        seconds.append(time.perf_counter() - begin)
    share = min(1.0, _LONGEST / max(_PART * min(seconds), 1e-9))
    return batches.load(rows[: max(1, int(len(rows) * share))], 0)
