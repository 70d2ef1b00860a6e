"""Published corpora, downloaded from a server on this machine in the formats that they have."""

import gzip
import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.holdout import EveryNth, HoldOut, LastLines, Shares
from lite_nlp.data.pairs.corpus import MAX_DOCUMENT_CHARACTERS
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.corpora import download_examples, download_pairs, download_text
from lite_nlp.data.published.entries import Archive, Columns, PublishedPairs, PublishedText, Stories, Text
from lite_nlp.data.published.stories import split_story
from tests.unit.data.archives import write_tar
from tests.unit.data.published import examples_of, lines, pairs_of


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
        return Columns(here(part.archive), part.member)
    if isinstance(part, Stories):
        return Stories(tuple(map(here, part.archives)), here(part.addresses))
    if isinstance(part, Text):
        return replace(part, archive=here(part.archive))
    return {language: Text(here(text.archive), text.member, text.markup) for language, text in part.items()}


def sgm(language, stem, n):
    body = "".join(f'<seg id="{i}"> {stem} {language} {i} </seg>\n' for i in range(n))
    return f'<srcset setid="x">\n<doc docid="1">\n<p>\n{body}</p></doc></srcset>\n'.encode()


def download(corpus, cache, languages=None):
    languages = languages or corpus.languages
    return download_pairs(corpus, cache, languages, progress=SilentProgress(), pause_s=0.0)


def test_the_catalogue_imports_nothing_heavy():
    code = (
        "import sys; import lite_nlp.data.published.catalogue;"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'pydantic', 'pyarrow', 'tokenizers'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_corpus_has_a_way_to_each_split():
    for name, corpus in CORPORA.items():
        assert corpus.name == name
        if isinstance(corpus, PublishedText):
            # Where the end of the training text is held out, nothing else may be published.
            assert set(corpus.parts) in ({"train"}, {"train", "valid", "test"})
            continue
        taken = corpus.rule.splits if corpus.rule else ()
        assert {*corpus.parts, *taken} == {"train", "valid", "test"}
        if isinstance(corpus, PublishedPairs):
            assert set(corpus.stems) == {"train", "valid", "test"}


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


def test_wmt_en_ro_reads_a_zip_and_sgml(mirror, tmp_path):
    root, led_here = mirror
    stem = "training-parallel-ep-v8/europarl-v8.ro-en"
    files = {f"{stem}.{language}": lines(language, "europarl", 2) for language in ("en", "ro")}
    write_tar(root / "training-parallel-ep-v8.tgz", files)
    with zipfile.ZipFile(root / "en-ro.txt.zip", "w") as archive:
        for language in ("en", "ro"):
            archive.writestr(f"SETIMES.en-ro.{language}", lines(language, "setimes", 1))
    for name, folder in (("dev", "dev/newsdev2016"), ("test", "test/newstest2016")):
        sides = {
            f"{folder}-enro-{side}.{lang}.sgm": sgm(lang, name, 2) for side, lang in (("src", "en"), ("ref", "ro"))
        }
        write_tar(root / f"{name}.tgz", sides)
    corpus = download(led_here("wmt16-en-ro"), tmp_path / "cache")
    assert pairs_of(corpus, "train")[1:] == [("europarl en 1", "europarl ro 1"), ("setimes en 0", "setimes ro 0")]
    assert pairs_of(corpus, "valid") == [("dev en 0", "dev ro 0"), ("dev en 1", "dev ro 1")]
    assert pairs_of(corpus, "test")[0] == ("test en 0", "test ro 0")


def story_file(address):
    return f"{hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()}.story"


def write_stories(root, **splits):
    """A story in either archive for each address, and the lists of addresses; one story is in no list."""
    names = {"train": "all_train.txt", "valid": "all_val.txt", "test": "all_test.txt"}
    for split, addresses in splits.items():
        (root / names[split]).write_text("".join(f"{address}\n" for address in addresses))
    addresses = ["http://not/listed", *(address for listed in splits.values() for address in listed)]
    stories = {
        f"cnn/stories/{story_file(address)}": (
            f"At {address}.\n\nMore of it.\n\n@highlight\n\nFirst point\n\n@highlight\n\nIs it {address}?\n"
        ).encode()
        for address in addresses
    }
    half = len(stories) // 2
    write_tar(root / "cnn_stories.tgz", dict(list(stories.items())[:half]))
    write_tar(root / "dailymail_stories.tgz", dict(list(stories.items())[half:]))


def test_cnn_dailymail_is_picked_by_address(mirror, tmp_path):
    root, led_here = mirror
    write_stories(root, train=["http://a", "http://b", "http://c"], valid=["http://d"], test=["http://e"])
    corpus = download(led_here("cnn-dailymail"), tmp_path / "cache")
    assert corpus.task == "summarization"
    assert pairs_of(corpus, "train") == [
        (f"At http://{name}. More of it.", f"First point. Is it http://{name}?") for name in "abc"
    ]
    assert pairs_of(corpus, "test") == [("At http://e. More of it.", "First point. Is it http://e?")]
    assert corpus.splits["valid"][0].max_characters == MAX_DOCUMENT_CHARACTERS
    assert not corpus.splits["train"][0].check_ratio


def test_a_listed_story_that_is_not_there_is_an_error_each_time(mirror, tmp_path):
    root, led_here = mirror
    write_stories(root, train=["http://a"], valid=["http://d"], test=["http://e"])
    (root / "all_test.txt").write_text("http://e\nhttp://nowhere\n")
    for _ in range(2):
        with pytest.raises(DataError, match=rf"1 missing, {story_file('http://nowhere')} for one"):
            download(led_here("cnn-dailymail"), tmp_path / "cache")


def test_stories_without_highlights_or_article_are_empty_on_that_side():
    assert split_story("One.\n\nTwo.\n") == ("One. Two.", "")
    assert split_story("\n@highlight\n\nPoint\n") == ("", "Point.")
    assert split_story("A b\tc\n@highlight\n'Quoted'\n@highlight\nHow?\n") == ("A b c", "'Quoted' How?")


def inference(split, *labels):
    return "".join(
        json.dumps({"gold_label": label, "sentence1": f"{split}  premise\t{n}", "sentence2": "Ja, ü.", "pairID": "x"})
        + "\n"
        for n, label in enumerate(labels)
    )


@pytest.mark.parametrize(
    ("name", "stem", "members"),
    [
        ("snli", "snli_1.0", ("train", "dev", "test")),
        ("multinli", "multinli_1.0", ("train", "dev_matched", "dev_mismatched")),
    ],
)
def test_inference_is_json_lines_without_pairs_that_have_no_label(mirror, tmp_path, name, stem, members):
    root, led_here = mirror
    with zipfile.ZipFile(root / f"{stem}.zip", "w") as archive:
        for split in members:
            archive.writestr(f"{stem}/{stem}_{split}.jsonl", inference(split, "neutral", "-", "entailment"))
    corpus = download_examples(led_here(name), tmp_path / "cache", progress=SilentProgress())
    assert corpus.sentences == 2
    assert examples_of(corpus, "valid") == [
        ("neutral", f"{members[1]} premise 0", "Ja, ü."),
        ("entailment", f"{members[1]} premise 2", "Ja, ü."),
    ]
    assert examples_of(corpus, "test")[0][1] == f"{members[2]} premise 0"


def test_agreement_is_what_comes_before_the_verb(mirror, tmp_path):
    root, led_here = mirror
    table = (
        "sentence\torig_sentence\tverb_pos\tverb_index\n"
        "the keys to the cabinet are here .\tx\tVBP\t6\n"
        '"he said ""no"" and leaves ."\tx\tVBZ\t5\n'
    )
    (root / "agr_50_mostcommon_10K.tsv.gz").write_bytes(gzip.compress(table.encode()))
    corpus = download_examples(led_here("agreement"), tmp_path / "cache", progress=SilentProgress())
    assert examples_of(corpus, "train") == [
        ("plural", "the keys to the cabinet", ""),
        ("singular", 'he said "no" and', ""),
    ]
    assert corpus.rule == Shares(valid_percent=1, test_percent=90)


@pytest.mark.parametrize("content", ["{}\n", "no json\n"])
def test_another_format_than_published_is_reported(mirror, tmp_path, content):
    root, led_here = mirror
    with zipfile.ZipFile(root / "snli_1.0.zip", "w") as archive:
        for split in ("train", "dev", "test"):
            archive.writestr(f"snli_1.0/snli_1.0_{split}.jsonl", content)
    with pytest.raises(DataError, match=r"train\.jsonl: expected the format of the published corpus, found"):
        download_examples(led_here("snli"), tmp_path / "cache", progress=SilentProgress())


def test_running_texts(mirror, tmp_path):
    root, led_here = mirror
    with zipfile.ZipFile(root / "wikitext-103-v1.zip", "w") as archive:
        for split in ("train", "valid", "test"):
            archive.writestr(f"wikitext-103/wiki.{split}.tokens", f" \n = {split} = \n")
    corpus = download_text(led_here("wikitext-103"), tmp_path / "cache", progress=SilentProgress())
    assert corpus.splits["valid"][0].path.read_text() == " \n = valid = \n"
    assert corpus.rule is None
    (root / "input.txt").write_text("First Citizen:\n")
    corpus = download_text(led_here("tinyshakespeare"), tmp_path / "cache", progress=SilentProgress())
    assert corpus.rule == LastLines()
    assert corpus.splits["train"][0].path.read_text() == "First Citizen:\n"


def test_shakespeare_is_plain_text(mirror, tmp_path):
    root, led_here = mirror
    for stem in ("train", "valid", "test"):
        for language in ("modern", "original"):
            (root / f"{stem}.{language}.nltktok").write_bytes(lines(language, stem, 2))
    corpus = download(led_here("shakespeare"), tmp_path / "cache")
    assert pairs_of(corpus, "valid") == [("valid modern 0", "valid original 0"), ("valid modern 1", "valid original 1")]


@pytest.mark.parametrize("damage", ["cut", "block", "checksum"])
def test_a_damaged_table_of_the_corpus_is_reported(mirror, tmp_path, damage):
    root, led_here = mirror
    whole = gzip.compress(b"sentence\tverb_index\tverb_pos\n" + b"the cat is here\t3\tVBZ\n" * 50)
    damaged = {"cut": whole[:-20], "block": whole[:10] + b"\xff" * 20, "checksum": whole[:-8] + bytes(8)}[damage]
    (root / "agr_50_mostcommon_10K.tsv.gz").write_bytes(damaged)
    with pytest.raises(
        DataError, match=r"agr_50_mostcommon_10K\.tsv\.gz: expected a whole gzip file, found it damaged"
    ):
        download_examples(led_here("agreement"), tmp_path / "cache", progress=SilentProgress())
    assert not list((tmp_path / "cache").rglob("*.txt"))


def test_failed_download_is_reported(mirror, tmp_path):
    _, led_here = mirror
    with pytest.raises(DataError, match=r"train\.en\.gz: expected to download it, found: HTTP Error 404"):
        download(led_here("multi30k"), tmp_path / "cache")
