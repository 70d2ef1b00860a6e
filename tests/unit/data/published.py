"""Lines such as corpora are published in, and what is read of a corpus."""

from lite_nlp.data.sources import ignore_bad_line


def lines(language, stem, n):
    return "".join(f"{stem} {language} {i}\n" for i in range(n)).encode()


def pairs_of(corpus, split):
    return [pair for source in corpus.splits[split] for _, pair in source.read(ignore_bad_line)]


def examples_of(corpus, split):
    return [
        (example.label, example.first, example.second)
        for source in corpus.splits[split]
        for _, example in source.read(ignore_bad_line)
    ]
