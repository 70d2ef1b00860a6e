"""Ids of the special tokens, the same in every vocabulary of this project."""

from typing import Final

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "SPECIAL_TOKENS"]

PAD_ID: Final = 0
BOS_ID: Final = 1
EOS_ID: Final = 2

#: Their spelling in ``tokenizer.json``, in id order.
SPECIAL_TOKENS: Final = ("<pad>", "<s>", "</s>")
