"""Loss on the validation split, over all processes."""

import torch
from accelerate import Accelerator
from torch import nn

from lite_nlp.models.config import TrainingConfig
from lite_nlp.training.batching import EpochBatches, deal, load_ahead, load_batch
from lite_nlp.training.device import autocast, to_device
from lite_nlp.training.loss import label_smoothed_loss
from lite_nlp.training.processes import sum_over_processes

__all__ = ["validation_loss"]


def validation_loss(
    model: nn.Module, batches: EpochBatches, *, accelerator: Accelerator, config: TrainingConfig
) -> tuple[float, float]:
    """Label-smoothed loss and negative log-likelihood, both per target token and in nats.

    The model is in evaluation mode during the call and in training mode after it.
    """
    work = [
        mine
        for step in batches.steps(0)
        for mine in deal(step, process=accelerator.process_index, processes=accelerator.num_processes)
    ]
    loss = nll = tokens = 0.0
    model.eval()
    with torch.inference_mode(), autocast(accelerator.device, config.precision):
        for batch in load_ahead(lambda item: load_batch(batches.split, item.rows), work):
            src_tokens, src_mask, tgt_tokens, labels = to_device(batch, accelerator.device)
            sums = label_smoothed_loss(
                model(src_tokens, src_mask, tgt_tokens), labels, smoothing=config.label_smoothing
            )
            loss += float(sums.loss)
            nll += float(sums.nll)
            tokens += batch.num_target_tokens
    model.train()
    loss, nll, tokens = sum_over_processes(accelerator, [loss, nll, tokens])
    return loss / tokens, nll / tokens
