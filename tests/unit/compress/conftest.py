"""A small network that is trained once for the tests of a file, in half a second."""

import pytest
import torch
from torch import nn

from tests.unit.compress.small_modules import Images, image_batches, trained


@pytest.fixture(scope="module")
def cnn() -> nn.Module:
    torch.manual_seed(0)
    return trained(Images(), image_batches(), 15)
