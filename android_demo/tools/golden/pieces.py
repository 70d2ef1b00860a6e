"""Vectors of text segmentation: sentence ends, pieces within a model's limit, and lines of output."""

from collections.abc import Callable
from typing import Any, Final

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.pieces import split_sentences, split_text
from tools.golden.texts import everyday_sentences, hostile_texts, random_texts

__all__ = ["piece_vectors"]

_ENDINGS: Final = (
    "One. Two! Three? Four… Five.",
    'He said "Stop." Then he left. (Really?) Yes.)  "No!"» And “so.” ‘on.’ then',
    "No.space.after 3.14 is pi. e.g. this. U.S.A. is",
    "これは一つ。これは二つ！三つ？四つ",
    "混ぜる。 Mixed. 終わり！  End?",
    "...... ...   ?!?! ! ? . ",
    "ends with a stop.",
    "ends with stops and spaces...   \t\n",
    "   starts with spaces. And goes on.   ",
    "A.\u00a0B.\u2003C.\u3000D.\u0085E.\u2028F.\u001cG.\u200bH",
    "a.\nb!\r\nc?\td…\u000be.\u000cf",
    "Quote.\"'”’»)] next .)]»’”'\" x",
    "no end at all " * 12,
    "OneVeryLongWord" * 15,
    "😀😀😀. 👨‍👩‍👧‍👦! é\u0301? 𠀀𠀁。𠀂",
    "half way here. " + "word " * 30 + "stop! " + "x" * 60,
    "  \u3000 ",
    "",
    ".",
    "。",
    "a",
    "a b",
    "ab cd ef gh ij kl mn op",
    "a  b   c    d     e      f",
)

#: Texts longer than a block: a word, words, a word among words, spaces, sentences between them, wide characters.
_LONG: Final = (
    "x" * 9_001,
    "ab cde  " * 1_200,
    f"word {'y' * 4_093} word {'z' * 4_096} {'w' * 4_094} end",
    f"a{' ' * 9_000}b",
    f"Short. {'half way ' * 600}stop! Short again. {'long way ' * 700}",
    "\u732b\u3068" * 2_100 + "\u3002" + "\U0001f600 " * 2_100,
)

#: How tokens are counted (by the shipped tokenizer, in code points, in bytes of UTF-8), and bounds of a piece: all of
#: them for texts made to be cut, the last for long ones, the second for the others.
_LIMITS: Final = {"tokens": (4, 9, 25, 200), "characters": (1, 7, 2, 40), "bytes": (4, 11, 64)}


def piece_vectors(tokenizer: Tokenizer) -> dict[str, Any]:
    """Sentences and pieces of texts, and outputs with line-ending characters joined.

    Args:
        tokenizer: Of the shipped model, which counts tokens.
    """
    counters: dict[str, Callable[[str], int]] = {
        "tokens": lambda text: len(tokenizer.encode(text)),
        "characters": len,
        "bytes": lambda text: len(text.encode("utf-8")),
    }
    paragraphs = [" ".join(source for source, _ in everyday_sentences(400)[start : start + 12]) for start in (0, 60)]
    others = [*hostile_texts(), *random_texts(120, seed=8)]
    chosen = [*_ENDINGS, *paragraphs]
    texts = [*chosen, *others]
    return {
        "sentences": [[text, split_sentences(text)] for text in texts],
        "pieces": [
            {"text": text, "counter": name, "max_tokens": limit, "pieces": split_text(text, counters[name], limit)}
            for group, wanted in ((chosen, slice(None)), (others, slice(1, 2)), (_LONG, slice(-1, None)))
            for text in group
            for name, limits in _LIMITS.items()
            for limit in limits[wanted]
        ],
        # What Translator makes of an output, so that one line in gives one line out.
        "joined_lines": [[text, " ".join(text.splitlines())] for text in texts if len(text.splitlines()) > 1],
        "blank": [[text, not text.strip()] for text in texts if len(text) <= 4],
    }
