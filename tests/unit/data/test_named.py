import gzip
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lite_nlp.cli.data import PUBLISHED
from lite_nlp.data.download import Archive
from lite_nlp.data.holdout import EveryNth, HoldOut
from lite_nlp.data.named import (
    CORPORA,
    Columns,
    Text,
    corpus_languages,
    download_corpus,
    local_corpus,
)
from lite_nlp.data.readers import ignore_bad_line
from lite_nlp.errors import DataError
from tests.unit.data.archives import write_tar


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def mirror(tmp_path):
    """A server on this machine, the directory it serves, and a corpus with its URLs led there."""
    root = tmp_path / "mirror"
    root.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"

        def led_here(name):
            corpus = CORPORA[name]
            return replace(
                corpus,
                parts={split: [moved(part, base) for part in parts] for split, parts in corpus.parts.items()},
            )

        yield root, led_here
        server.shutdown()
        thread.join()


def moved(part, base):
    def here(archive):
        return Archive(f"{base}/{archive.name}")

    if isinstance(part, Columns):
        return Columns(here(part.archive), part.member, part.columns)
    return {language: Text(here(text.archive), text.member, text.markup) for language, text in part.items()}


def lines(language, stem, n):
    return "".join(f"{stem} {language} {i}\n" for i in range(n)).encode()


def sgm(language, stem, n):
    body = "".join(f'<seg id="{i}"> {stem} {language} {i} </seg>\n' for i in range(n))
    return f'<srcset setid="x">\n<doc docid="1">\n<p>\n{body}</p></doc></srcset>\n'.encode()


def download(corpus, cache, languages=None):
    languages = languages or corpus.languages
    return download_corpus(corpus, cache, languages, on_progress=lambda *step: None, pause_s=0.0)


def pairs_of(corpus, split):
    return [pair for source in corpus.splits[split] for pair in source.pairs(ignore_bad_line)]


def test_the_command_line_lists_every_corpus():
    assert tuple(CORPORA) == PUBLISHED


def test_every_corpus_has_a_way_to_each_split():
    for name, corpus in CORPORA.items():
        assert corpus.name == name
        taken = corpus.rule.splits if corpus.rule else ()
        assert {*corpus.parts, *taken} == {"train", "valid", "test"} == set(corpus.stems)


def test_multi30k_is_one_gzip_file_per_language(mirror, tmp_path):
    root, led_here = mirror
    for stem, n in (("train", 5), ("val", 3), ("test_2016_flickr", 2)):
        for language in ("en", "de"):
            (root / f"{stem}.{language}.gz").write_bytes(gzip.compress(lines(language, stem, n)))
    corpus = download(led_here("multi30k"), tmp_path / "cache")
    assert pairs_of(corpus, "train")[4] == ("train en 4", "train de 4")
    assert len(pairs_of(corpus, "valid")) == 3
    assert pairs_of(corpus, "test") == [(f"test_2016_flickr en {i}", f"test_2016_flickr de {i}") for i in range(2)]
    assert corpus.rule is None
    reversed_corpus = download(led_here("multi30k"), tmp_path / "cache", ("de", "en"))
    assert pairs_of(reversed_corpus, "train")[4] == ("train de 4", "train en 4")


def test_tatoeba_is_columns_with_a_disjoint_split_of_ours(mirror, tmp_path):
    root, led_here = mirror
    with zipfile.ZipFile(root / "deu-eng.zip", "w") as archive:
        archive.writestr("_about.txt", "who made it")
        archive.writestr("deu.txt", "".join(f"go {i}\tgeh {i}\tCC-BY {i}\n" for i in range(30)))
    corpus = download(led_here("tatoeba"), tmp_path / "cache")
    assert pairs_of(corpus, "train")[7] == ("go 7", "geh 7")
    assert corpus.rule == HoldOut(valid_pairs=2000, test_pairs=2000)
    assert pairs_of(download(led_here("tatoeba"), tmp_path / "cache", ("de", "en")), "train")[7] == ("geh 7", "go 7")


def test_iwslt_loses_its_markup_and_nothing_else(mirror, tmp_path):
    root, led_here = mirror
    files = {}
    for language in ("de", "en"):
        files[f"de-en/train.tags.de-en.{language}"] = (
            f"<url>http://talk</url>\n<keywords>a, b</keywords>\n<speaker>Her</speaker>\n<talkid>7</talkid>\n"
            f"<title>{language} title</title>\n<description>{language} about</description>\n"
            f"{language} says a <b> here\n<reviewer href='x'>Me</reviewer>\n{language} end\n"
        ).encode()
        for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            files[f"de-en/IWSLT14.{part}.de-en.{language}.xml"] = sgm(language, part, 2)
    write_tar(root / "de-en.tgz", files)
    corpus = download(led_here("iwslt14"), tmp_path / "cache")
    spoken = ("{} title", "{} about", "{} says a <b> here", "{} end")
    assert pairs_of(corpus, "train") == [(line.format("de"), line.format("en")) for line in spoken]
    assert pairs_of(corpus, "test")[:3] == [
        ("TED.dev2010 de 0", "TED.dev2010 en 0"),
        ("TED.dev2010 de 1", "TED.dev2010 en 1"),
        ("TEDX.dev2012 de 0", "TEDX.dev2012 en 0"),
    ]
    assert len(pairs_of(corpus, "test")) == 10
    assert corpus.rule == EveryNth(23)


def write_news(root, pair, tgt):
    files = {f"dev/newstest2013-{side}.{lang}.sgm": sgm(lang, "dev", 3) for side, lang in (("src", "en"), ("ref", tgt))}
    write_tar(root / "dev.tgz", files)
    stem = f"test-full/newstest2014-{pair}"
    files = {f"{stem}-{side}.{lang}.sgm": sgm(lang, "test", 2) for side, lang in (("src", "en"), ("ref", tgt))}
    write_tar(root / "test-full.tgz", files)


def test_wmt_en_de_joins_its_parts(mirror, tmp_path):
    root, led_here = mirror
    for archive, stem, n in (
        ("training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en", 3),
        ("training-parallel-commoncrawl.tgz", "commoncrawl.de-en", 2),
        ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.de-en", 1),
    ):
        write_tar(root / archive, {f"{stem}.{language}": lines(language, archive, n) for language in ("de", "en")})
    write_news(root, "deen", "de")
    corpus = download(led_here("wmt14-en-de"), tmp_path / "cache")
    assert len(pairs_of(corpus, "train")) == 6
    assert pairs_of(corpus, "train")[-1] == ("training-parallel-nc-v9.tgz en 0", "training-parallel-nc-v9.tgz de 0")
    assert pairs_of(corpus, "valid") == [(f"dev en {i}", f"dev de {i}") for i in range(3)]
    assert pairs_of(corpus, "test") == [(f"test en {i}", f"test de {i}") for i in range(2)]


def test_wmt_en_fr_reads_gzip_members_of_a_tar(mirror, tmp_path):
    root, led_here = mirror
    for archive, stem in (
        ("training-parallel-europarl-v7.tgz", "training/europarl-v7.fr-en"),
        ("training-parallel-commoncrawl.tgz", "commoncrawl.fr-en"),
        ("training-parallel-un.tgz", "un/undoc.2000.fr-en"),
        ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.fr-en"),
    ):
        write_tar(root / archive, {f"{stem}.{language}": lines(language, "x", 1) for language in ("fr", "en")})
    giga = {f"giga-fren.release2.fixed.{lang}.gz": gzip.compress(lines(lang, "giga", 2)) for lang in ("fr", "en")}
    write_tar(root / "training-giga-fren.tar", giga, mode="w")
    write_news(root, "fren", "fr")
    corpus = download(led_here("wmt14-en-fr"), tmp_path / "cache")
    assert len(pairs_of(corpus, "train")) == 6
    assert pairs_of(corpus, "train")[-1] == ("giga en 1", "giga fr 1")
    assert len(pairs_of(corpus, "test")) == 2


def test_shakespeare_is_plain_text(mirror, tmp_path):
    root, led_here = mirror
    for stem in ("train", "valid", "test"):
        for language in ("modern", "original"):
            (root / f"{stem}.{language}.nltktok").write_bytes(lines(language, stem, 2))
    corpus = download(led_here("shakespeare"), tmp_path / "cache")
    assert pairs_of(corpus, "valid") == [("valid modern 0", "valid original 0"), ("valid modern 1", "valid original 1")]


def test_failed_download_is_reported(mirror, tmp_path):
    _, led_here = mirror
    with pytest.raises(DataError, match=r"train\.en\.gz: expected to download it, found: HTTP Error 404"):
        download(led_here("multi30k"), tmp_path / "cache")


def test_local_copy_with_and_without_gzip(tmp_path):
    for stem in ("train", "val", "test2016"):
        (tmp_path / f"{stem}.en.gz").write_bytes(gzip.compress(lines("en", stem, 2)))
        (tmp_path / f"{stem}.de").write_bytes(lines("de", stem, 2))
    corpus = local_corpus(CORPORA["multi30k"], tmp_path, ("de", "en"))
    assert pairs_of(corpus, "valid") == [("val de 0", "val en 0"), ("val de 1", "val en 1")]
    assert corpus.rule is None


def test_local_copy_names_all_that_is_missing(tmp_path):
    (tmp_path / "train.en").write_bytes(b"one\n")
    with pytest.raises(DataError) as raised:
        local_corpus(CORPORA["tatoeba"], tmp_path, ("en", "de"))
    assert str(raised.value) == (
        f"{tmp_path}: expected a copy of tatoeba, found no train.de[.gz], valid.en[.gz], valid.de[.gz], "
        "test.en[.gz], test.de[.gz]"
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None), ("de", "en")),
        (("en", None), ("en", "de")),
        ((None, "de"), ("en", "de")),
        (("de", "en"), ("de", "en")),
    ],
)
def test_languages_follow_from_either(asked, expected):
    assert corpus_languages(CORPORA["iwslt14"], *asked) == expected


@pytest.mark.parametrize("asked", [("fr", None), ("en", "en"), ("de", "fr")])
def test_other_languages_are_refused(asked):
    with pytest.raises(DataError, match="corpus iwslt14: expected the languages de and en, found"):
        corpus_languages(CORPORA["iwslt14"], *asked)
