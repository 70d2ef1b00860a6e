"""The signing key, the licences, the names of packages."""

import zipfile
from pathlib import Path

import pytest

import tools.package.licenses
from tools.base.errors import BuildError
from tools.base.layout import ABIS
from tools.package.licenses import collect_licenses, find_unlicensed, read_components, refer_to_terms
from tools.package.packing import package_path
from tools.package.sign import find_key


def test_the_debug_key_is_of_the_repository() -> None:
    key = find_key({})
    assert key.store.is_file()
    assert (key.password, key.alias) == ("pass:android", "debug")


def test_a_release_key_comes_by_the_environment(tmp_path: Path) -> None:
    store = tmp_path / "release.p12"
    environment = {
        "LITE_NLP_KEYSTORE": str(store),
        "LITE_NLP_KEYSTORE_PASSWORD": "secret",
        "LITE_NLP_KEY_ALIAS": "mine",
    }
    with pytest.raises(BuildError, match="LITE_NLP_KEYSTORE: expected a file, found none at"):
        find_key(environment)
    store.touch()
    key = find_key(environment)
    # The password itself must not get into a command line, which others on the machine can read.
    assert (key.store, key.password, key.alias) == (store, "env:LITE_NLP_KEYSTORE_PASSWORD", "mine")
    with pytest.raises(BuildError, match="expected the store's password in LITE_NLP_KEYSTORE_PASSWORD, found none"):
        find_key({"LITE_NLP_KEYSTORE": str(store)})


def test_each_component_has_a_licence() -> None:
    components = read_components()
    assert all(len(component.text) > 80 for component in components)
    own = ["liblitenlp_ort.so"]
    shipped = ["libonnxruntime.so", "libexecutorch.so", "libfbjni.so", "libc++_shared.so", "liblitenlp_ort.so"]
    jars = ["classes.jar", "fbjni-0.7.0.jar", "nativeloader-0.10.5.jar", "kotlin-stdlib-2.4.21.jar"]
    assert find_unlicensed(shipped + jars, own, components) == []
    assert find_unlicensed([*shipped, "libnew.so"], own, components) == ["libnew.so"]


def test_the_licences_are_one_text_of_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "onnxruntime.jar"
    with zipfile.ZipFile(package, "w") as jar:
        jar.writestr("ThirdPartyNotices.txt", "notices\r\nof others")
    monkeypatch.setattr(tools.package.licenses, "jars", lambda _: [package])
    rule = "=" * 72 + "\n"
    _, *parts = collect_licenses().split(rule)
    titles, texts = parts[0::2], parts[1::2]
    assert len(titles) == len(texts) == len(read_components()) + 4
    assert [title.strip() for title in titles if "\n" in title[:-1]] == []
    sections = {title.strip(): text.strip() for title, text in zip(titles, texts, strict=True)}
    assert sections["Third-party notices of ONNX Runtime"] == "notices\nof others"
    assert "CC BY 2.0 FR" in sections["The models' data"]
    assert "Apache License" in sections["Apache License, Version 2.0"]
    assert "Software Mansion" in sections["React Native ExecuTorch, which distributes the library of ExecuTorch"]


def test_terms_are_left_out_only_where_they_are_the_same() -> None:
    start, end = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION\n", "\nEND OF TERMS AND CONDITIONS"
    apache = f"Apache License\n{start}1. Definitions. You may.{end}\nAppendix"
    same = f"Copyright A\n   {start}\n 1. Definitions.\n    You may.{end}\nrest"
    other = f"Copyright B\n{start}1. Definitions. You may not.{end}\n"
    found = refer_to_terms(same + other, apache)
    assert found.startswith(
        'Copyright A\n   TERMS AND CONDITIONS: as under "Apache License, Version 2.0", word for word'
    )
    assert found.endswith(f"\nrest{other}")
    with pytest.raises(BuildError, match="expected the terms and conditions of the Apache License, found none"):
        refer_to_terms(same, "no licence")


def test_packages_of_two_instruction_sets_have_two_names(tmp_path: Path) -> None:
    names = [package_path(abi, tmp_path).name for abi in ABIS]
    assert names == ["lite-nlp-demo.apk", "lite-nlp-demo-x86_64.apk"]
