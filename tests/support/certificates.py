"""Certificates for a cluster of tests: an authority, and what it signs for brokers and clients."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
HERE = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
STORE_PASSWORD, KEY_PASSWORD = "store-secret-8", "key-secret-9"


class Authority:
    """A certificate authority, which writes what it signs into `folder`, and its own certificate as `ca.pem`."""

    def __init__(self, folder: Path, name: str = "authority of tests") -> None:
        self._name = name
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._key = folder, generate_private_key(SECP256R1())
        self._certificate = (
            self._builder(name, self._key, -DAY, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "ca.pem").write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def sign(
        self,
        name: str,
        *hosts: x509.GeneralName,
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
    ) -> Path:
        """Signs a new key for `name`, which may serve under the names `hosts`. The validity begins and ends that far
        from now. Writes NAME.key, NAME.crt, NAME.pem with both and the authority, and NAME.p12. Returns NAME.pem."""
        key = generate_private_key(SECP256R1())
        builder = self._builder(name, key, begins, ends)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        chain = signed.public_bytes(Encoding.PEM) + self._certificate.public_bytes(Encoding.PEM)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for suffix, data in {
            "key": text,
            "crt": chain,
            "pem": text + chain,
            "locked.key": key.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
            ),
            "p12": pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                signed,
                [self._certificate],
                serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
            ),
        }.items():
            file = self.folder / f"{name}.{suffix}"
            file.write_bytes(data)
            file.chmod(0o600)
        return self.folder / f"{name}.pem"

    def _builder(
        self, name: str, key: EllipticCurvePrivateKey, begins: datetime.timedelta, ends: datetime.timedelta
    ) -> x509.CertificateBuilder:
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(own)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )
