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
    "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz", checksum="md5:10936dfdf616504ddbd844e91b94ef4a"
)
# Sizes and checksums of training text as TensorFlow Datasets publishes them (url_checksums/wmt1[456]_translate.txt).
_EUROPARL = Archive(
    "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    size=657_632_379,
    checksum="sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
_COMMON_CRAWL = Archive(
    "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    size=918_311_367,
    checksum="sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
_UNITED_NATIONS = Archive(
    "https://www.statmt.org/wmt13/training-parallel-un.tgz",
    size=2_365_634_246,
    checksum="sha256:29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
_NEWS_COMMENTARY = Archive(
    "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    size=80_418_416,
    checksum="sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
_GIGA_FREN = Archive(
    "https://www.statmt.org/wmt10/training-giga-fren.tar",
    size=2_595_102_720,
    checksum="sha256:3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
_EUROPARL_RO = Archive(
    "https://data.statmt.org/wmt16/translation-task/training-parallel-ep-v8.tgz",
    size=225_018_324,
    checksum="sha256:8917bd3bef3bc894c8519ca1f8a4c7c330aad08a1263655a9d99ee13d532e3c7",
)
# No checksum is published.
_SETIMES = Archive("https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-ro.txt.zip")
# Checksums of test sets as sacreBLEU publishes them.
_NEWS_DEV = Archive(
    "https://data.statmt.org/wmt17/translation-task/dev.tgz", checksum="md5:9b1aa63c1cf49dccdd20b962fe313989"
)
_NEWS_TEST = Archive("https://www.statmt.org/wmt14/test-full.tgz", checksum="md5:a8cd784e006feb32ac6f3d9ec7eb389a")
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
# Sizes and checksums of these as TensorFlow Datasets publishes them (url_checksums/*.txt).
_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"
_STORY_LISTS: Final[Mapping[SplitName, Archive]] = {
    "train": Archive(
        f"{_LISTS}/all_train.txt",
        size=46_424_688,
        checksum="sha256:a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029",
    ),
    "valid": Archive(
        f"{_LISTS}/all_val.txt",
        size=2_433_674,
        checksum="sha256:81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db",
    ),
    "test": Archive(
        f"{_LISTS}/all_test.txt",
        size=2_109_547,
        checksum="sha256:c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd",
    ),
}
_SNLI = Archive(
    "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
    size=94_550_081,
    checksum="sha256:afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
)
_MULTINLI = Archive(
    "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
    size=226_850_426,
    checksum="sha256:049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
)
_TINY_SHAKESPEARE = Archive(
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    size=1_115_394,
    checksum="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)
# No checksum is published.
_AGREEMENT = Archive("https://www.dropbox.com/s/5axdu3q9jkxzjy8/agr_50_mostcommon_10K.tsv.gz?dl=1")
# As torchtext publishes it, of the same file at its first host.
_WIKITEXT = Archive("https://wikitext.smerity.com/wikitext-103-v1.zip", checksum="md5:9ddaacaf6af0710eda8c456decff7832")

#: The splits in local copies of most corpora.
_STEMS: Final[Mapping[SplitName, str]] = {"train": "train", "valid": "valid", "test": "test"}


def _descriptions(stem: str, english_md5: str, german_md5: str) -> Mapping[str, Text]:
    """The two files of a split of Multi30k; their checksums are as torchtext publishes them."""
    return {
        language: Text(Archive(f"{_MULTI30K}/{stem}.{language}.gz", checksum=f"md5:{md5}"))
        for language, md5 in (("en", english_md5), ("de", german_md5))
    }


def _verses(split: SplitName) -> Mapping[str, Text]:
    """The two files of a split of modern and original Shakespeare, of which no checksum is published."""
    return {side: Text(Archive(f"{_SHAKESPEARE}/{split}.{side}.nltktok")) for side in ("modern", "original")}


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
            "train": [_descriptions("train", "0065d13af80720a55ca8153d126e6627", "81ff90b99829c0cd4b1b587d394afd39")],
            "valid": [_descriptions("val", "2b69aa9253948ac9f67e94917272dd40", "6e0e229eb049e3fc99a1ef02fb2d5f91")],
            "test": [
                _descriptions(
                    "test_2016_flickr", "ff2c0fcb4893a13bd73414306bc250ae", "efd67d314d98489b716b145475101932"
                )
            ],
        },
        stems={"train": "train", "valid": "val", "test": "test2016"},
    ),
    PublishedPairs(
        name="tatoeba",
        about="Everyday sentences of the Tatoeba project, CC BY 2.0 FR, https://www.manythings.org/anki",
        languages=("en", "de"),
        # No checksum is published; the file grows with the project.
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
        parts={split: [_verses(split)] for split in _STEMS},
        stems=_STEMS,
    ),
    PublishedPairs(
        name="cnn-dailymail",
        about="312,000 news articles with highlights (Hermann et al. 2015, splits of See et al. 2017), research "
        "use, https://cs.nyu.edu/~kcho/DMQA",
        languages=("article", "highlights"),
        parts={
            "train": [Stories(_STORIES, _STORY_LISTS["train"])],
            "valid": [Stories(_STORIES, _STORY_LISTS["valid"])],
            "test": [Stories(_STORIES, _STORY_LISTS["test"])],
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
