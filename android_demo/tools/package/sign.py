"""Package signing: by the key that environment variables name, else by the debug key of the repository.

The debug key is public: its signature does not tell who built a package. RSA signatures of PKCS #1 v1.5 are
deterministic, so that two builds of one source are the same bytes.
"""

import dataclasses
import os
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import MIN_SDK
from tools.base.processes import run

__all__ = ["Key", "find_key", "sign_package"]

_DEBUG_STORE = Path(__file__).with_name("debug.p12")
_SCHEMES = (2, 3)
_STORE, _PASSWORD, _ALIAS = "LITE_NLP_KEYSTORE", "LITE_NLP_KEYSTORE_PASSWORD", "LITE_NLP_KEY_ALIAS"


@dataclasses.dataclass(frozen=True)
class Key:
    """A signing key.

    Attributes:
        store: Its PKCS #12 file.
        password: As apksigner takes it: where the password is, not the password of a key that is not public.
        alias: Its name in the store; empty where the store has one key.
    """

    store: Path
    password: str
    alias: str


def find_key(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Key:
    """Choose the signing key.

    Raises:
        BuildError: Only some of the variables are set, or the store is missing.
    """
    store = environment.get(_STORE)
    if not store:
        return Key(_DEBUG_STORE, "pass:android", "debug")
    if not environment.get(_PASSWORD):
        raise BuildError(f"{_STORE} is set: expected the store's password in {_PASSWORD}, found none")
    if not Path(store).is_file():
        raise BuildError(f"{_STORE}: expected a file, found none at {store}")
    return Key(Path(store), f"env:{_PASSWORD}", environment.get(_ALIAS, ""))


def sign_package(unsigned: Path, signed: Path, key: Key) -> None:
    """Sign by schemes 2 and 3, and verify the result; only systems older than the app runs on need scheme 1.

    Raises:
        BuildError: It cannot be signed, or a signature does not verify.
    """
    schemes = [
        word for number in (1, 2, 3) for word in (f"--v{number}-signing-enabled", str(number in _SCHEMES).lower())
    ]
    alias = ["--ks-key-alias", key.alias] if key.alias else []
    store: list[str | Path] = ["--ks", key.store, "--ks-type", "PKCS12", "--ks-pass", key.password, *alias]
    files: list[str | Path] = ["--in", unsigned, "--out", signed]
    run(["apksigner", "sign", *store, "--min-sdk-version", str(MIN_SDK), *schemes, *files], what="apksigner sign")
    signed.with_name(signed.name + ".idsig").unlink(missing_ok=True)
    said = run(["apksigner", "verify", "--verbose", "--min-sdk-version", str(MIN_SDK), signed], what="apksigner verify")
    for number in _SCHEMES:
        if f"Verified using v{number} scheme" not in said or _verdict(said, number) != "true":
            raise BuildError(
                f"{signed.name}: expected a signature of scheme {number} that verifies, found none:\n{said}"
            )


def _verdict(said: str, number: int) -> str:
    line = next(line for line in said.splitlines() if line.startswith(f"Verified using v{number} scheme"))
    return line.rsplit(":", 1)[1].strip()
