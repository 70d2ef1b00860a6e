import numpy as np
import torch

from lite_nlp.data.pairs.batches import collate
from lite_nlp.training.device import autocast, seed_for, to_device


def test_seeds_differ_wherever_a_number_does() -> None:
    seeds = {seed_for(seed, step, slot) for seed in range(4) for step in range(20) for slot in range(3)}
    assert len(seeds) == 240
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for(1, 2, 3) == seed_for(1, 2, 3)
    assert seed_for(1, 23) != seed_for(12, 3)


def test_a_batch_keeps_its_values() -> None:
    batch = collate([np.array([5, 6])], [np.array([7])])
    tensors = to_device(batch, torch.device("cpu"))
    assert [tensor.tolist() for tensor in tensors] == [[[5, 6, 2]], [[True] * 3], [[1, 7]], [[7, 2]]]


def test_precision_is_that_of_products() -> None:
    one = torch.ones(2, 2)
    with autocast(torch.device("cpu"), "bf16"):
        assert (one @ one).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "fp32"):
        assert (one @ one).dtype == torch.float32
