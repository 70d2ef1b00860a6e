"""Definitions of the counting conventions, each with a worked example that a test recomputes. Imports no torch."""

from typing import Final, NamedTuple

__all__ = ["CONVENTIONS", "PARAMETER_COUNTS", "Explained"]


class Explained(NamedTuple):
    """Definition of a way of counting.

    Attributes:
        sentence: What is counted and what is not.
        example: The arithmetic of one small case.
    """

    sentence: str
    example: str


#: How Mult-Adds are counted. One Mult-Add is one multiplication whose product is added to a sum.
CONVENTIONS: Final[dict[str, Explained]] = {
    "paper": Explained(
        "What the published tables count: the teacher-forced forward of one sentence, with every weight matrix inside "
        "the layers and every kernel generator once per token, attention over all query-key pairs without causal "
        "halving, linear attention as its recurrence, and LayerNorm as one per element; without output softmax, "
        "convolution taps, biases, look-ups, sums and activations. Adaptive embeddings count the projection of their "
        "first band for every token.",
        "Self-attention of width 4 in a decoder, 3 tokens: four 4 x 4 projections of 3 tokens make 4 * 16 * 3 = 192, "
        "scores and weighted sums of 3 * 3 pairs make 2 * 4 * 9 = 72, together 264.",
    ),
    "executed": Explained(
        "What a device does that decodes with caches: the encoder and the keys and values of cross-attention once per "
        "sentence, then for every target token and hypothesis of the beam one decoder step that attends to the tokens "
        "so far, applies the convolution taps and projects to the whole vocabulary; adaptive embeddings compute every "
        "band, on the way in and at the output. A language model has the steps alone.",
        "The same block, step by step: the projections stay 192, but the steps attend to 1, 2 and 3 tokens, "
        "2 * 4 * (1 + 2 + 3) = 48, together 240; a beam of 2 takes 480. An output of 7 words adds 4 * 7 * 3 = 84.",
    ),
}

#: How parameters are counted; a tensor that several layers share counts once.
PARAMETER_COUNTS: Final[dict[str, Explained]] = {
    "total": Explained(
        "Every stored parameter, embedding tables included.",
        "10 source and 7 target words of width 4 in two tables, the target's also the output: 40 + 28 = 68.",
    ),
    "paper": Explained(
        "All but the input embedding tables, as Lite Transformer counts: an output projection of its own is in, a "
        "tied one is not, nor is any part of adaptive embeddings.",
        "The same tables leave 0; an output of its own would leave 28.",
    ),
    "weights": Explained(
        "As paper, without biases and LayerNorms: the matrices that R2D2 counts.",
        "A Linear from 4 to 6 channels counts 24 instead of 30.",
    ),
    "encoder": Explained(
        "The layers of the encoder or the cells of the LSTM, biases and LayerNorms included, as R2D2 counts "
        "classifiers: neither tables nor the layers that choose the class.",
        "An LSTM of width 4 over words of width 3 has four gates of 4 * (3 + 4) weights and two biases of 4: 144.",
    ),
    "encoder_weights": Explained(
        "As encoder, without biases and LayerNorms, as R2D2 counts its quaternion LSTM.",
        "The same LSTM counts 112.",
    ),
    "encoder_partly_biased": Explained(
        "As encoder, without the biases of attention, as R2D2 counts its models of agreement.",
        "Self-attention of width 4, four Linears, counts 64 instead of 80; a feed-forward block keeps its biases.",
    ),
}
