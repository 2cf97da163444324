"""The table of security properties: every row is translated there and back, and nothing is lost in silence."""

from __future__ import annotations

import pytest

from delivery_verifier.cluster.security import jaas, names
from delivery_verifier.cluster.security.names import JAVA_ONLY, LIBRDKAFKA_ONLY, TABLE, UnsupportedSecurity
from delivery_verifier.model.inputs import BadInput

PLAIN = f'{jaas.PLAIN_MODULE} required username="ve,ri=fier" password="se\\"c\\\\ret; x";'
SCRAM = f'{jaas.SCRAM_MODULE} required username="u" password="p";'
ROWS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_SSL"}),
    (
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
        {"sasl.mechanism": "PLAIN", "sasl.username": "ve,ri=fier", "sasl.password": 'se"c\\ret; x'},
    ),
    (
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM},
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "p"},
    ),
    ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
    ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "PEM text"}, {"ssl.ca.pem": "PEM text"}),
    (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/own.pem"},
        {"ssl.certificate.location": "/own.pem", "ssl.key.location": "/own.pem"},
    ),
    (
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": "key", "ssl.keystore.certificate.chain": "chain"},
        {"ssl.key.pem": "key", "ssl.certificate.pem": "chain"},
    ),
    (
        {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/own.p12", "ssl.keystore.password": "p"},
        {"ssl.keystore.location": "/own.p12", "ssl.keystore.password": "p"},
    ),
    ({"ssl.key.password": "p"}, {"ssl.key.password": "p"}),
    ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl.endpoint.identification.algorithm": "https"}),
]


@pytest.mark.parametrize(("java", "librdkafka"), ROWS, ids=lambda row: "+".join(row))
def test_a_row_is_translated_there_and_back(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert names.from_java(java) == librdkafka
    assert names.to_java(librdkafka) == java


def test_every_row_of_the_table_is_tried() -> None:
    tried = [(java.keys(), librdkafka.keys()) for java, librdkafka in ROWS]
    for row in TABLE:
        assert any(set(row.java) == set(java) and set(row.librdkafka) == set(other) for java, other in tried), row.java


def test_all_rows_together_are_translated_there_and_back() -> None:
    java, librdkafka = (dict[str, str]() for _ in range(2))
    for of_java, of_librdkafka in (ROWS[0], ROWS[1], ROWS[3], ROWS[5], ROWS[8], ROWS[9]):
        java |= of_java
        librdkafka |= of_librdkafka
    assert names.from_java(java) == librdkafka
    assert names.to_java(librdkafka) == java


def test_no_name_is_only_javas_and_only_librdkafkas() -> None:
    assert JAVA_ONLY.isdisjoint(LIBRDKAFKA_ONLY)
    assert {"sasl.jaas.config", "ssl.truststore.location"} <= JAVA_ONLY
    assert {"sasl.password", "ssl.ca.location", "ssl.key.pem"} <= LIBRDKAFKA_ONLY


def test_a_secret_is_in_the_list_of_secrets() -> None:
    suspicious = {name for name in names.NAMES if name.endswith(("password", "jaas.config", "key.pem", "store.key"))}
    assert suspicious <= names.SECRETS


@pytest.mark.parametrize("name", ["ssl.cipher.suites", "ssl.engine.id", "ssl.certificate.location", "sasl.username"])
def test_what_no_row_takes_is_refused_by_name_in_both_directions(name: str) -> None:
    with pytest.raises(UnsupportedSecurity, match=f"is given no {name}: leave it out"):
        names.to_java({name: "x"})
    with pytest.raises(UnsupportedSecurity, match=f"is given no {name}: leave it out"):
        names.from_java({name: "x"})


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"])
def test_a_mechanism_that_one_client_lacks_is_refused_with_the_reason(mechanism: str) -> None:
    with pytest.raises(UnsupportedSecurity, match=rf"sasl\.mechanism is {mechanism}.*allowed: PLAIN.*the reason: "):
        names.to_java({"sasl.mechanism": mechanism})


def test_a_login_module_of_another_mechanism_is_refused() -> None:
    with pytest.raises(UnsupportedSecurity, match=r"sasl\.mechanism is PLAIN, but sasl\.jaas\.config names .*Scram"):
        names.from_java({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hush-7", "cannot be read"),
        ("hush-7 required;", r"names the login module \(not shown\)"),
        (f'{jaas.SCRAM_MODULE} required username="u" password="hush-7"', "semicolon"),
        (f'{jaas.SCRAM_MODULE} required username="u";', "lacks username or password"),
        (f'{jaas.SCRAM_MODULE} required username="u" password="hush-7" tokenauth="true";', "the options tokenauth"),
        (f'{jaas.SCRAM_MODULE} required username="u" "hush-7";', r"cannot be read \(not shown\)"),
        (
            'com.sun.security.auth.module.Krb5LoginModule required keyTab="hush-7";',
            r"Krb5LoginModule; allowed: .*PlainLoginModule",
        ),
    ],
)
def test_another_jaas_configuration_is_refused_without_its_value(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refusal:
        jaas.read(text)
    assert "hush-7" not in str(refusal.value)


def test_a_login_hides_itself() -> None:
    assert "p" not in repr(jaas.Login("p", "p")).replace("Login(hidden)", "")


@pytest.mark.parametrize("password", ["two\nlines", "carriage\rreturn", 'quote"', "back\\slash", "\\n"])
def test_a_password_with_signs_that_end_a_string_of_jaas_comes_back_and_breaks_no_line(password: str) -> None:
    """Java would end the string at a line break, and show the rest of the password in its error."""
    text = jaas.written("PLAIN", jaas.Login("user", password))
    assert "\n" not in text and "\r" not in text
    assert jaas.read(text)[1].password == password
