"""The language model, a decoder alone: on running text for training, some tokens at a time with caches for generation.

Shape letters: B batch, T tokens, D channels of the model, V types of the vocabulary.
"""

from torch import Tensor, nn

from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.models.adaptive import AdaptiveVocabulary
from lite_nlp.models.attention.heads import token_positions
from lite_nlp.models.embeddings import PlainVocabulary, Positions, StackInput
from lite_nlp.models.stacks import DecoderStack

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """Computes the probability of every next token: the decoder of every family, without cross-attention.

    ``build_model`` assembles it.

    Args:
        config: The model's configuration.
        vocabulary: Embeddings and output.
        positions: Position table.
        stack_input: Block from the embeddings to the first layer.
        layers: Decoder layers without cross-attention.
        norm: LayerNorm after the last layer, or identity.
    """

    def __init__(
        self,
        *,
        config: LanguageModelConfig,
        vocabulary: PlainVocabulary | AdaptiveVocabulary,
        positions: Positions,
        stack_input: StackInput,
        layers: DecoderStack,
        norm: nn.Module,
    ) -> None:
        super().__init__()
        self.config = config
        self.scale = config.embed_dim**0.5
        self.vocabulary = vocabulary
        self.positions = positions
        self.input = stack_input
        self.layers = layers
        self.norm = norm

    def _embed(self, tokens: Tensor) -> Tensor:
        """Scaled embeddings of ``tokens``."""
        scaled: Tensor = self.vocabulary.embed(tokens) * self.scale
        return scaled

    def hidden(self, tokens: Tensor) -> Tensor:
        """The normalized output (B, T, D) of the last layer for ``tokens`` (B, T)."""
        positions = self.positions.first(tokens.shape[1])
        normed: Tensor = self.norm(self.layers.decode(self.input, self._embed(tokens), positions))
        return normed

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of every next token, given the text so far.

        Args:
            tokens: (B, T) int64; padding, if any, on the right, where its logits are meaningless.
        """
        return self.vocabulary.logits(self.hidden(tokens))

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of known next tokens; with adaptive embeddings without a (B, T, V) tensor.

        Args:
            tokens: (B, T) int64, as in ``forward``.
            labels: (B, T) int64, the token after each; types of the vocabulary, also where there is padding.
        """
        return self.vocabulary.target_log_probs(self.hidden(tokens), labels)

    def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
        """The state before the first token, on the device of the weights.

        Args:
            batch_size: Texts B.
            capacity: Largest number of tokens that will be read.

        Returns:
            Named tensors, each with the batch first: ``position`` (B,) and, for each layer, what
            ``EncoderDecoder.init_state`` has, without anything of a source.
        """
        like = next(self.parameters()).new_zeros((batch_size, 1))
        return self.layers.init_state(self.input, like, capacity)

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed one token per row, (B,): see :meth:`read`."""
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed the next tokens of each row and compute the logits of the one after them.

        Args:
            tokens: (B, T) int64, at most as many as the state has place for.
            state: From ``init_state`` or the call before; not changed.

        Returns:
            Logits (B, V) and the new state, with the same names, shapes and types.
        """
        length = tokens.shape[1]
        positions = self.positions.at(token_positions(state["position"], length))
        x, new_state = self.layers.step(self.input, self._embed(tokens), positions, state, length)
        return self.vocabulary.logits(self.norm(x[:, -1])), new_state
