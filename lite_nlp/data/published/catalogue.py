"""The catalogue of published corpora: name, contents, terms, files and splits of each.

Importing it takes milliseconds, so that the command line can list the names.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lite_nlp.data.choices import SplitName
from lite_nlp.data.holdout import EveryNth, HoldOut, Shares
from lite_nlp.data.published.entries import (
    Archive,
    Columns,
    PublishedCorpus,
    PublishedExamples,
    PublishedPairs,
    PublishedText,
    Stories,
    Text,
)

__all__ = ["CORPORA"]

_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_SHAKESPEARE = "https://raw.githubusercontent.com/harsh19/Shakespearizing-Modern-English/master/data"
_IWSLT = Archive(
    "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz", checksum="md5:10936dfdf616504ddbd844e91b94ef4a"
)
_EUROPARL = Archive("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz")
_COMMON_CRAWL = Archive("https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz")
_UNITED_NATIONS = Archive("https://www.statmt.org/wmt13/training-parallel-un.tgz")
_NEWS_COMMENTARY = Archive("https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz")
_GIGA_FREN = Archive("https://www.statmt.org/wmt10/training-giga-fren.tar", size=2_595_102_720)
_NEWS_DEV = Archive("https://data.statmt.org/wmt17/translation-task/dev.tgz")
_NEWS_TEST = Archive("https://www.statmt.org/wmt14/test-full.tgz")
_EUROPARL_RO = Archive("https://data.statmt.org/wmt16/translation-task/training-parallel-ep-v8.tgz")
_SETIMES = Archive("https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-ro.txt.zip")
# Checksums as sacreBLEU publishes them.
_NEWS_DEV_2016 = Archive(
    "https://data.statmt.org/wmt16/translation-task/dev.tgz", checksum="md5:4a3dc2760bb077f4308cce96b06e6af6"
)
_NEWS_TEST_2016 = Archive(
    "https://data.statmt.org/wmt16/translation-task/test.tgz", checksum="md5:3d809cd0c2c86adb2c67034d15c4e446"
)
# Checksums and lists as torchtext publishes them.
_STORIES = (
    Archive(
        "https://huggingface.co/datasets/ccdv/cnn_dailymail/resolve/main/cnn_stories.tgz",
        checksum="md5:85ac23a1926a831e8f46a6b8eaf57263",
    ),
    Archive(
        "https://huggingface.co/datasets/ccdv/cnn_dailymail/resolve/main/dailymail_stories.tgz",
        checksum="md5:f9c5f565e8abe86c38bfa4ae8f96fd72",
    ),
)
_STORY_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"
_SNLI = Archive("https://nlp.stanford.edu/projects/snli/snli_1.0.zip")
_MULTINLI = Archive("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip")
_AGREEMENT = Archive("https://www.dropbox.com/s/5axdu3q9jkxzjy8/agr_50_mostcommon_10K.tsv.gz?dl=1")
_WIKITEXT = Archive("https://wikitext.smerity.com/wikitext-103-v1.zip")
_TINY_SHAKESPEARE = Archive("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt")

#: The splits in local copies of most corpora.
_STEMS: Final[Mapping[SplitName, str]] = {"train": "train", "valid": "valid", "test": "test"}


def _files(url: str, languages: Sequence[str]) -> Mapping[str, Text]:
    """One download per language."""
    return {language: Text(Archive(url.format(language))) for language in languages}


def _aligned(archive: Archive, stem: str, languages: Sequence[str], suffix: str = "") -> Mapping[str, Text]:
    """Two members of an archive that differ in the language at their end."""
    return {language: Text(archive, f"{stem}.{language}{suffix}") for language in languages}


def _news(archive: Archive, stem: str, src: str, tgt: str) -> Mapping[str, Text]:
    """Source and reference of a news test set."""
    return {
        src: Text(archive, f"{stem}-src.{src}.sgm", "segments"),
        tgt: Text(archive, f"{stem}-ref.{tgt}.sgm", "segments"),
    }


def _talks(year: str) -> Mapping[str, Text]:
    return {
        language: Text(_IWSLT, f"de-en/IWSLT14.{year}.de-en.{language}.xml", "segments") for language in ("de", "en")
    }


_PAIRS: Final = (
    PublishedPairs(
        name="multi30k",
        about="29,000 image descriptions (Elliott et al. 2016), research use, https://github.com/multi30k/dataset",
        languages=("en", "de"),
        parts={
            "train": [_files(f"{_MULTI30K}/train.{{}}.gz", ("en", "de"))],
            "valid": [_files(f"{_MULTI30K}/val.{{}}.gz", ("en", "de"))],
            "test": [_files(f"{_MULTI30K}/test_2016_flickr.{{}}.gz", ("en", "de"))],
        },
        stems={"train": "train", "valid": "val", "test": "test2016"},
    ),
    PublishedPairs(
        name="tatoeba",
        about="Everyday sentences of the Tatoeba project, CC BY 2.0 FR, https://www.manythings.org/anki",
        languages=("en", "de"),
        parts={"train": [Columns(Archive("https://www.manythings.org/anki/deu-eng.zip"), "deu.txt")]},
        rule=HoldOut(valid_pairs=2_000, test_pairs=2_000),
        stems=_STEMS,
    ),
    PublishedPairs(
        name="iwslt14",
        about="160,000 sentences of TED talks, CC BY-NC-ND, divided as usual: every 23rd pair to validate",
        languages=("de", "en"),
        parts={
            "train": [
                {language: Text(_IWSLT, f"de-en/train.tags.de-en.{language}", "talks") for language in ("de", "en")}
            ],
            "test": [
                _talks(year) for year in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
            ],
        },
        rule=EveryNth(23),
        stems=_STEMS,
    ),
    PublishedPairs(
        name="wmt14-en-de",
        about="4.5 million sentences, https://www.statmt.org/wmt14: newstest2013 to validate, newstest2014 to test",
        languages=("en", "de"),
        parts={
            "train": [
                _aligned(_EUROPARL, "training/europarl-v7.de-en", ("en", "de")),
                _aligned(_COMMON_CRAWL, "commoncrawl.de-en", ("en", "de")),
                _aligned(_NEWS_COMMENTARY, "training/news-commentary-v9.de-en", ("en", "de")),
            ],
            "valid": [_news(_NEWS_DEV, "dev/newstest2013", "en", "de")],
            "test": [_news(_NEWS_TEST, "test-full/newstest2014-deen", "en", "de")],
        },
        stems=_STEMS,
    ),
    PublishedPairs(
        name="wmt14-en-fr",
        about="36 million sentences, https://www.statmt.org/wmt14: newstest2013 to validate, newstest2014 to test",
        languages=("en", "fr"),
        parts={
            "train": [
                _aligned(_EUROPARL, "training/europarl-v7.fr-en", ("en", "fr")),
                _aligned(_COMMON_CRAWL, "commoncrawl.fr-en", ("en", "fr")),
                _aligned(_UNITED_NATIONS, "un/undoc.2000.fr-en", ("en", "fr")),
                _aligned(_NEWS_COMMENTARY, "training/news-commentary-v9.fr-en", ("en", "fr")),
                _aligned(_GIGA_FREN, "giga-fren.release2.fixed", ("en", "fr"), ".gz"),
            ],
            "valid": [_news(_NEWS_DEV, "dev/newstest2013", "en", "fr")],
            "test": [_news(_NEWS_TEST, "test-full/newstest2014-fren", "en", "fr")],
        },
        stems=_STEMS,
    ),
    PublishedPairs(
        name="wmt16-en-ro",
        about="610,000 sentences, https://www.statmt.org/wmt16: newsdev2016 to validate, newstest2016 to test",
        languages=("en", "ro"),
        parts={
            "train": [
                _aligned(_EUROPARL_RO, "training-parallel-ep-v8/europarl-v8.ro-en", ("en", "ro")),
                _aligned(_SETIMES, "SETIMES.en-ro", ("en", "ro")),
            ],
            "valid": [_news(_NEWS_DEV_2016, "dev/newsdev2016-enro", "en", "ro")],
            "test": [_news(_NEWS_TEST_2016, "test/newstest2016-enro", "en", "ro")],
        },
        stems=_STEMS,
    ),
    PublishedPairs(
        name="shakespeare",
        about="18,395 modern lines and Shakespeare's own (Jhamtani et al. 2017), "
        "https://github.com/harsh19/Shakespearizing-Modern-English",
        languages=("modern", "original"),
        parts={split: [_files(f"{_SHAKESPEARE}/{split}.{{}}.nltktok", ("modern", "original"))] for split in _STEMS},
        stems=_STEMS,
    ),
    PublishedPairs(
        name="cnn-dailymail",
        about="312,000 news articles with highlights (Hermann et al. 2015, splits of See et al. 2017), research "
        "use, https://cs.nyu.edu/~kcho/DMQA",
        languages=("article", "highlights"),
        parts={
            "train": [Stories(_STORIES, Archive(f"{_STORY_LISTS}/all_train.txt"))],
            "valid": [Stories(_STORIES, Archive(f"{_STORY_LISTS}/all_val.txt"))],
            "test": [Stories(_STORIES, Archive(f"{_STORY_LISTS}/all_test.txt"))],
        },
        stems=_STEMS,
        task="summarization",
    ),
)

_EXAMPLES: Final = (
    PublishedExamples(
        name="snli",
        about="570,000 pairs of sentences, three labels (Bowman et al. 2015), CC BY-SA 4.0, "
        "https://nlp.stanford.edu/projects/snli",
        parts={
            "train": [Text(_SNLI, "snli_1.0/snli_1.0_train.jsonl", "inference")],
            "valid": [Text(_SNLI, "snli_1.0/snli_1.0_dev.jsonl", "inference")],
            "test": [Text(_SNLI, "snli_1.0/snli_1.0_test.jsonl", "inference")],
        },
    ),
    PublishedExamples(
        name="multinli",
        about="433,000 pairs of sentences, three labels (Williams et al. 2018), OANC and other licences, "
        "https://cims.nyu.edu/~sbowman/multinli: matched set to validate, mismatched set to test",
        parts={
            "train": [Text(_MULTINLI, "multinli_1.0/multinli_1.0_train.jsonl", "inference")],
            "valid": [Text(_MULTINLI, "multinli_1.0/multinli_1.0_dev_matched.jsonl", "inference")],
            "test": [Text(_MULTINLI, "multinli_1.0/multinli_1.0_dev_mismatched.jsonl", "inference")],
        },
    ),
    PublishedExamples(
        name="agreement",
        about="1.6 million sentences up to their verb, singular or plural (Linzen et al. 2016), "
        "https://github.com/TalLinzen/rnn_agreement: 9 % to train, 1 % to validate, the rest to test",
        parts={"train": [Text(_AGREEMENT, markup="agreement")]},
        rule=Shares(valid_percent=1, test_percent=90),
    ),
)

_TEXTS: Final = (
    PublishedText(
        name="wikitext-103",
        about="103 million words of Wikipedia (Merity et al. 2017), CC BY-SA 3.0",
        parts={split: [Text(_WIKITEXT, f"wikitext-103/wiki.{split}.tokens")] for split in ("train", "valid", "test")},
    ),
    PublishedText(
        name="tinyshakespeare",
        about="40,000 lines of Shakespeare's plays, public domain, https://github.com/karpathy/char-rnn",
        parts={"train": [Text(_TINY_SHAKESPEARE)]},
    ),
)

#: All corpora by name: pairs, labelled examples, running texts.
CORPORA: Final[Mapping[str, PublishedCorpus]] = {corpus.name: corpus for corpus in (*_PAIRS, *_EXAMPLES, *_TEXTS)}
