"""Files with keys and certificates: PEM, PKCS #12, and Java's own JKS, which is refused.

The format is found by the first bytes of a file, not by its name: since Java 9 a file `.jks` is often PKCS #12. This
module is the only one that imports `cryptography`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from delivery_verifier.model.inputs import BadInput

Kind = Literal["PEM", "PKCS12", "JKS"]
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS (`sun.security.provider.JavaKeyStore`, `com.sun.crypto.provider.JceKeyStore`)."""
OWNER_ALONE, OWNER_AND_GROUP = 0o077, 0o027
"""The bits of a file's mode that are forbidden if only its owner, or also its group, may read it."""
_REMEDIES = {
    OWNER_ALONE: ("0600", "chmod 600"),
    OWNER_AND_GROUP: ("0600, 0440", "mount it with defaultMode: 0440, or chmod 600"),
}
_DER_SEQUENCE = b"\x30"
_NO_PATH = re.compile(r"-----BEGIN|[\x00-\x1f\x7f\ud800-\udc7f\udd00-\udfff]")
"""What no path has: the first line of PEM, line breaks and other control characters, and what no encoding has."""
_MOST_OF_NAME, _MOST_OF_PATH = 255, 4095
"""The most bytes that Linux allows in the name of a file, and in a path (`NAME_MAX`, `PATH_MAX`)."""
_TEXTS = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "ssl.keystore.location": "ssl.keystore.key and ssl.keystore.certificate.chain",
    "ssl.truststore.location": "ssl.truststore.certificates",
}
"""Maps the properties of files to those that take a text in PEM instead."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class KeyPair(NamedTuple):
    """A private key, and the chain of certificates that belongs to it, as texts in PEM."""

    key: str
    chain: str

    def __repr__(self) -> str:
        return "KeyPair(hidden)"


def path_of(name: str, value: str) -> Path:
    """Returns `value` of the property `name` as a path. Raises BadInput, which does not show it, if it cannot be the
    path of a file: somebody may have written the key itself there."""
    as_bytes = value.encode("utf-8", "surrogatepass")
    is_long = len(as_bytes) > _MOST_OF_PATH or any(len(part) > _MOST_OF_NAME for part in as_bytes.split(b"/"))
    if is_long or _NO_PATH.search(value):
        remedy = f"; a text in PEM is {_TEXTS[name]}" if name in _TEXTS else ""
        raise BadInput(f"{name} is no path (the value is not shown); allowed: the path of a file{remedy}")
    return Path(value)


def is_folder(name: str, value: str) -> bool:
    """Returns whether `value` of the property `name` is the path of a folder that this user can see. Raises BadInput as
    `path_of` does."""
    return os.path.isdir(path_of(name, value))  # noqa: PTH112 - Path.is_dir raises for a folder that it may not enter


def content(name: str, path: str) -> bytes:
    """Returns the bytes of the file that the property `name` names. Raises BadInput if it cannot be read, and, as
    `path_of` does, if it is no path."""
    file = path_of(name, path)
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{name} is {path!r}, which cannot be read ({error.strerror}); allowed: a file that this user can read"
        ) from None


def require_private(name: str, path: Path, forbidden: int, secrets: Iterable[str]) -> None:
    """Raises BadInput if others than `forbidden` allows may use the file that `name` names: it holds `secrets`.
    `forbidden` is OWNER_ALONE or OWNER_AND_GROUP."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & forbidden:
        modes, remedy = _REMEDIES[forbidden]
        raise BadInput(
            f"{name} is {str(path)!r} with mode {mode:04o}, and holds secrets ({', '.join(secrets)}); "
            f"allowed: {modes}; remedy: {remedy} {path}"
        )


def kind(name: str, path: str) -> Kind:
    """Returns the format of the file that the property `name` names. Raises BadInput if it cannot be read, or has none
    of the three formats."""
    data = content(name, path)
    if data.startswith(_JKS):
        return "JKS"
    if b"-----BEGIN " in data:
        return "PEM"
    if data.startswith(_DER_SEQUENCE):
        return "PKCS12"
    raise BadInput(f"{name} is {path!r}, which is no store of keys or certificates; allowed: PEM, PKCS #12")


def require_no_jks(name: str, path: str) -> Kind:
    """Returns the format of the file that the property `name` names. Raises BadInput as `kind` does, and for JKS, with
    the command that converts it."""
    store_kind = kind(name, path)
    if store_kind == "JKS":
        target = str(Path(path).with_suffix(".p12"))
        raise BadInput(
            f"{name} is {path!r}, a JKS store, which only Java reads; allowed: PEM, PKCS #12; convert it: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {target} -deststoretype PKCS12"
        )
    return store_kind


def trusted(name: str, path: str, password: str, password_name: str) -> str:
    """Returns the certificates in a PKCS #12 trust store, as a text in PEM. Raises BadInput, which names the property,
    if the password does not open it, or if there are none."""
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _opened(name, path, password, password_name)
    texts = [each.certificate.public_bytes(Encoding.PEM).decode() for each in store.additional_certs]
    if not texts:
        raise BadInput(
            f"{name} is {path!r}, in which there is no certificate; allowed: a store of trusted certificates"
        )
    return "".join(texts)


def key_pair(name: str, path: str, password: str, password_name: str) -> KeyPair:
    """Returns the private key and its chain in a PKCS #12 key store. Raises BadInput, which names the property, if the
    password does not open it, or if there is no key."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _opened(name, path, password, password_name)
    if store.key is None or store.cert is None:
        raise BadInput(
            f"{name} is {path!r}, in which there is no private key; allowed: a store with key and certificate"
        )
    chain = [each.certificate.public_bytes(Encoding.PEM).decode() for each in (store.cert, *store.additional_certs)]
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(key.decode(), "".join(chain))


def split(name: str, text: str) -> KeyPair:
    """Returns the first private key and all certificates of a text in PEM. Raises BadInput if one of them is
    missing."""
    key, chain = _KEY.search(text), _CERTIFICATE.findall(text)
    if key is None or not chain:
        missing = "private key" if key is None else "certificate"
        raise BadInput(f"{name} has no {missing}; allowed: PEM with a private key and its certificates")
    return KeyPair(key[0] + "\n", "\n".join(chain) + "\n")


def unlocked(pair: KeyPair, password: str) -> KeyPair:
    """Returns `pair` with a key that needs no password. Raises BadInput if `password` does not open the key."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(pair.key.encode(), password.encode() or None)
    except (ValueError, TypeError):
        raise BadInput("ssl.key.password does not open the private key (the value is not shown)") from None
    return KeyPair(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), pair.chain)


def subject(chain: str) -> str:
    """Returns the distinguished name of the first certificate of a text in PEM, as RFC 4514 writes it."""
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(chain.encode()).subject.rfc4514_string()


def _opened(name: str, path: str, password: str, password_name: str):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.serialization import pkcs12

    data = content(name, path)
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise BadInput(
            f"{password_name} does not open {path!r}, the PKCS #12 store of {name} (the value is not shown)"
        ) from None
