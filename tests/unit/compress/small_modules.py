"""Two small modules of other people, and data that they learn: a CNN with images, an LSTM with tags."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


class Images(nn.Module):
    """A CNN with batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )
        self.classify = nn.Linear(32 * 16, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(F.max_pool2d(self.features(images), 2).flatten(1))  # type: ignore[no-any-return]


class Tagger(nn.Module):
    """A bidirectional LSTM whose output layer shares the table of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 48)
        self.lstm = nn.LSTM(48, 24, bidirectional=True, batch_first=True)
        self.output = nn.Linear(48, 50)
        self.output.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.lstm(self.embed(tokens))[0])  # type: ignore[no-any-return]


def image_batches() -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(4, 1, 8, 8, generator=generator)
    labels = torch.arange(96) % 4
    images = patterns[labels] + 0.7 * torch.randn(96, 1, 8, 8, generator=generator)
    return list(zip(images.split(32), labels.split(32), strict=True))


def tag_batches() -> list[Batch]:
    tokens = torch.randint(0, 50, (48, 10), generator=torch.Generator().manual_seed(0))
    # The tag is the token before, so that the recurrent weights are needed.
    return list(zip(tokens.split(16), tokens.roll(1, dims=1).split(16), strict=True))


def batch_loss(model: nn.Module, batch: Batch) -> Tensor:
    logits = model(batch[0])
    return F.cross_entropy(logits.flatten(0, -2), batch[1].flatten())


def accuracy_of(batches: list[Batch]) -> Callable[[nn.Module], float]:
    def accuracy(model: nn.Module) -> float:
        hits = torch.cat([(model(inputs).argmax(-1) == labels).flatten() for inputs, labels in batches])
        return 100 * float(hits.float().mean())

    return accuracy


def trained(module: nn.Module, batches: list[Batch], rounds: int) -> nn.Module:
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(rounds):
        for batch in batches:
            optimizer.zero_grad()
            batch_loss(module, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return module
