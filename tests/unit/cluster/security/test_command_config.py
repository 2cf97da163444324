"""What an operator gives to reach a cluster: it is read as by Kafka's tools, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.certificates import KEY_PASSWORD, STORE_PASSWORD, Authority

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.security import command_config, names, tls
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.cluster.security.reading import OTHER_CLIENTS, Access
from delivery_verifier.host.redaction import redact
from delivery_verifier.maintenance import redaction
from delivery_verifier.model.inputs import BadInput

SERVER = "broker.example:9093"
JAVA = """
bootstrap.servers=a:9093, b:9093
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hush-7";
acks=all
client.id=ours
"""
LIBRDKAFKA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": "hush-7",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.sign("own")
    return made


def file(folder: Path, text: str, mode: int = 0o600, name: str = "client.properties") -> str:
    path = folder / name
    path.write_text(text, "latin-1")
    path.chmod(mode)
    return str(path)


def test_a_server_alone_is_plain_tcp() -> None:
    access = command_config.read(server="a:9092,[::1]:9093")
    assert access == Access((Address("a", 9092), Address("::1", 9093)), {})
    assert str(access.servers[1]) == "[::1]:9093"


def test_javas_names_become_librdkafkas_and_what_is_no_connection_is_named(tmp_path: Path) -> None:
    access = command_config.read(config=file(tmp_path, JAVA))
    assert access.security == LIBRDKAFKA
    assert access.servers == (Address("a", 9093), Address("b", 9093))
    assert access.left_out == ("acks", "client.id")


def test_the_server_of_the_command_line_beats_the_property_and_that_the_file(tmp_path: Path) -> None:
    config = file(tmp_path, JAVA)
    typed = ["bootstrap.servers=c:1", "ssl.endpoint.identification.algorithm="]
    assert command_config.read(config=config, properties=typed).servers == (Address("c", 1),)
    access = command_config.read(SERVER, config, typed)
    assert access.servers == (Address("broker.example", 9093),)
    assert access.security["ssl.endpoint.identification.algorithm"] == "none"


def test_the_encoding_is_javas(tmp_path: Path) -> None:
    access = command_config.read(config=file(tmp_path, JAVA.replace("hush-7", "h\xe4\\\\u00fc")))
    assert access.security["sasl.password"] == "h\xe4u00fc", "Latin-1, and the escapes of a properties file, then JAAS"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_with_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadInput, match=rf"with mode {mode:04o}, and holds secrets \(sasl.jaas.config\); allowed: 0600"):
        command_config.read(config=file(tmp_path, JAVA, mode))
    plain = command_config.read(config=file(tmp_path, f"bootstrap.servers={SERVER}", mode))
    assert plain.security == {}, "a file without secrets may have any mode"


def test_a_secret_on_the_command_line_is_refused(tmp_path: Path) -> None:
    for name in sorted(names.SECRETS):
        with pytest.raises(BadInput, match=f"has a value for {name}.*--command-config") as refusal:
            command_config.read(SERVER, properties=[f"{name}=hush-7"])
        assert "hush-7" not in str(refusal.value)
    with pytest.raises(BadInput, match=r"a word without a name or an equals sign \(not shown\)"):
        command_config.read(SERVER, properties=["hush-7"])


@pytest.mark.parametrize(("name", "right"), OTHER_CLIENTS.items())
def test_the_name_of_another_client_gets_the_right_one(tmp_path: Path, name: str, right: str) -> None:
    with pytest.raises(BadInput, match=f"{name} is the name of another client; write {right}") as refusal:
        command_config.read(config=file(tmp_path, f"{JAVA}\n{name}=hush-8"))
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("oauth_cb=mine.token", "oauth_cb names code, which is never loaded here"),
        ("sasl.login.callback.handler.class=x.Y", "names code"),
        ("sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler", "names code"),
        ("sasl.oauthbearer.token.endpoint.url=https://x", "sasl.mechanism is OAUTHBEARER"),
        ("sasl.kerberos.service.name=kafka", "sasl.mechanism is GSSAPI.*Kerberos"),
        ("ssl.cipher.suites=TLS_AES_256_GCM_SHA384", "ssl.cipher.suites is a property that the verifier, librdkafka"),
        ("sasl.jaas.conf=x", "did you mean sasl.jaas.config"),
        ("enable.ssl.certificate.verification=false", "cannot all use"),
    ],
)
def test_what_the_clients_cannot_all_use_is_refused_by_name(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UnsupportedSecurity, match=said):
        command_config.read(config=file(tmp_path, f"{JAVA}\n{line}"))


@pytest.mark.parametrize("mechanism", names.NOT_EVERYWHERE)
def test_a_mechanism_that_is_not_everywhere_is_refused(tmp_path: Path, mechanism: str) -> None:
    with pytest.raises(UnsupportedSecurity, match=f"sasl.mechanism is {mechanism}"):
        command_config.read(config=file(tmp_path, JAVA.replace("SCRAM-SHA-512", mechanism)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=SASL_SSL", "sasl.mechanism is missing, which means GSSAPI"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", r"sasl.username and sasl.password missing"),
        ("security.protocol=TLS", "security.protocol is 'TLS'; allowed: PLAINTEXT, SSL"),
        (
            "sasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p",
            "security.protocol is 'PLAINTEXT'; allowed: SASL_SSL",
        ),
        (
            "security.protocol=SSL\nssl.ca.location=/nowhere/ca.pem",
            "ssl.ca.location is '/nowhere/ca.pem', which cannot",
        ),
        ("ssl.truststore.location=/x\nssl.ca.location=/y", "mixes names of Java's clients"),
        ("security.protocol=SSL\nssl.key.pem=x", "ssl.certificate.pem is missing beside ssl.key.pem"),
        ("metadata.broker.list=", "bootstrap.servers is missing"),
        ("x=\\u12", "broken .u escape"),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_named(tmp_path: Path, text: str, said: str) -> None:
    servers = "" if "broker.list" in text else f"bootstrap.servers={SERVER}\n"
    with pytest.raises((BadInput, UnsupportedSecurity), match=said):
        command_config.read(config=file(tmp_path, servers + text))


@pytest.mark.parametrize("server", ["broker", "broker:0", "broker:99999", "a b:1", "user:hush@host:1"])
def test_a_server_without_a_port_is_refused(server: str) -> None:
    with pytest.raises(BadInput, match=r"bootstrap.servers is .*allowed: HOST:PORT"):
        command_config.read(server=server)


@pytest.mark.parametrize("server", ["u:hush@h:9092", "a:1,u:hu,sh@h:9092", "PLAINTEXT://u:hush@x@h:1", "u:hush@h"])
def test_a_password_before_a_server_is_not_shown(server: str) -> None:
    with pytest.raises(BadInput, match=r"bootstrap.servers is '\(not shown\)@h.*sasl.password") as refusal:
        command_config.read(server=server)
    assert "hu" not in str(refusal.value)


@pytest.mark.parametrize(
    "value", ["-----BEGIN PRIVATE KEY----- hush", "MIhush\\nMIhush", "hush" * 99, "hush/" * 999, "hush\\u0000"]
)
@pytest.mark.parametrize("name", [name for name in sorted(names.NAMES) if name.endswith(".location")])
def test_a_text_in_place_of_a_path_is_not_shown(tmp_path: Path, name: str, value: str) -> None:
    text = f"bootstrap.servers={SERVER}\nsecurity.protocol=SSL\n{name}={value}\n"
    if name == "ssl.key.location":  # the other file of the pair, which is read first
        file(tmp_path, "-----BEGIN CERTIFICATE-----", name="own.crt")
        text += f"ssl.certificate.location={tmp_path / 'own.crt'}"
    with pytest.raises(BadInput, match=rf"{name} is no path \(the value is not shown\).*; a text in PEM is") as refusal:
        command_config.read(config=file(tmp_path, text))
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.key.location", "ssl.keystore.location"])
def test_a_connection_of_airflow_shows_no_text_in_place_of_a_path(name: str, authority: Authority) -> None:
    own = {"security.protocol": "SSL", "ssl.certificate.location": str(authority.folder / "own.crt")}
    for value in ("-----BEGIN PRIVATE KEY-----\nhush", "hush" * 99):
        for use in (tls.context, lambda security: Connection({1: Address("a", 1)}, security).java_properties()):
            with pytest.raises(BadInput, match=f"{name} is no path") as refusal:
                use({**own, name: value})
            assert "hush" not in str(refusal.value)


def test_a_config_file_that_is_no_path_is_not_shown() -> None:
    with pytest.raises(BadInput, match="--command-config is no path") as refusal:
        command_config.read(config="hush" * 99)
    assert "hush" not in str(refusal.value)


def test_a_cluster_has_a_name_and_a_file_in_the_operators_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path))
    with pytest.raises(BadInput, match=r"--cluster is 'staging'; allowed: a file NAME.properties.*there is none yet"):
        command_config.read(cluster="staging")
    file(tmp_path, JAVA, name="staging.properties")
    assert command_config.read(cluster="staging").security == LIBRDKAFKA
    with pytest.raises(BadInput, match="did you mean staging"):
        command_config.read(cluster="stagin")
    with pytest.raises(BadInput, match="allowed: up to 80"):
        command_config.read(cluster="../staging")
    with pytest.raises(BadInput, match="both given"):
        command_config.read(config="x", cluster="staging")


def test_the_folder_of_a_mounted_secret_is_read(tmp_path: Path, authority: Authority) -> None:
    data = tmp_path / "..2026"  # as Kubernetes mounts it: links to a hidden folder
    data.mkdir()
    for name, source in {
        "ca.crt": "ca.pem",
        "user.crt": "own.crt",
        "user.key": "own.key",
        "user.p12": "own.p12",
    }.items():
        (data / name).write_bytes((authority.folder / source).read_bytes())
    (data / "user.password").write_text("hush-7")
    for path in data.iterdir():
        path.chmod(0o440)
        (tmp_path / path.name).symlink_to(path)
    file(tmp_path, "security.protocol=SSL", name="more.properties")
    access = command_config.read(SERVER, str(tmp_path))
    assert access.security == {
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca.crt"),
        "ssl.certificate.location": str(tmp_path / "user.crt"),
        "ssl.key.location": str(tmp_path / "user.key"),
    }
    assert tls.context(access.security) is not None
    (data / "user.key").chmod(0o444)
    with pytest.raises(BadInput, match=r"holds secrets \(ssl.key.location\).*defaultMode: 0440"):
        command_config.read(SERVER, str(tmp_path))


def test_a_mounted_secret_of_scram_has_its_values_in_files(tmp_path: Path, authority: Authority) -> None:
    file(tmp_path, "hush-7\n", name="password")
    file(tmp_path, JAVA.split("sasl.jaas.config=")[1].split("\n")[0], name="sasl.jaas.config")
    properties = ["security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512"]
    assert command_config.read(SERVER, str(tmp_path), properties).security == LIBRDKAFKA
    (tmp_path / "ca.crt").write_bytes((authority.folder / "ca.pem").read_bytes())
    with_ca = LIBRDKAFKA | {"ssl.ca.location": str(tmp_path / "ca.crt")}
    assert command_config.read(SERVER, str(tmp_path), properties).security == with_ca


def test_placeholders_of_kafkas_own_providers_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_TEST_PASSWORD", "hush-7")
    package = "org.apache.kafka.common.config.provider."
    secrets = file(tmp_path, "user=u", name="secrets")
    lines = [
        "config.providers=env,file",
        f"config.providers.env.class={package}EnvVarConfigProvider",
        f"config.providers.file.class={package}FileConfigProvider",
        JAVA.replace("hush-7", "${env:KDV_TEST_PASSWORD}").replace('"u"', f'"${{file:{secrets}:user}}"'),
    ]
    assert command_config.read(config=file(tmp_path, "\n".join(lines))).security == LIBRDKAFKA
    with pytest.raises(BadInput, match=r"sasl.jaas.config has a placeholder \(not shown\), and there is no"):
        command_config.read(config=file(tmp_path, "\n".join(lines).replace("TEST_PASSWORD", "TEST_ABSENT")))
    Path(secrets).chmod(0o644)
    with pytest.raises(BadInput, match=r"sasl.jaas.config is '.*secrets' with mode 0644, and holds secrets \(what "):
        command_config.read(config=file(tmp_path, "\n".join(lines)))
    vault = "config.providers=vault\nconfig.providers.vault.class=x.Vault\n" + JAVA
    with pytest.raises(BadInput, match=r"config.providers.vault.class is 'x.Vault'; allowed: .*FileConfigProvider"):
        command_config.read(config=file(tmp_path, vault))


PROVIDERS = "config.providers=file,dir\n" + "".join(
    f"config.providers.{name}.class=org.apache.kafka.common.config.provider.{kind}ConfigProvider\n"
    for name, kind in (("file", "File"), ("dir", "Directory"))
)


def test_without_providers_a_password_may_look_like_a_placeholder(tmp_path: Path) -> None:
    """Kafka's `AbstractConfig` resolves nothing then."""
    access = command_config.read(config=file(tmp_path, JAVA.replace("hush-7", "pa${hunter:two}ss")))
    assert access.security["sasl.password"] == "pa${hunter:two}ss"


@pytest.mark.parametrize(
    "placeholder",
    [
        "${hush:x}",
        "${x:hush}",
        "${file:hush:hush}",
        "${file:FOLDER/value:hush}",
        "${file:FOLDER/escape:hush}",
        "${file:" + "hush" * 99 + ":x}",
        "${dir:FOLDER:hush}",
        "${dir:FOLDER:bytes}",
    ],
)
@pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.key.password", "basic.auth.user.info"])
def test_no_part_of_a_placeholder_for_a_secret_is_shown(tmp_path: Path, name: str, placeholder: str) -> None:
    file(tmp_path, "x=hush-7", name="value")
    file(tmp_path, "x=\\u12hush", name="escape")
    file(tmp_path, "hush\xff", name="bytes")
    java = "\n".join(line for line in JAVA.splitlines() if not line.startswith(name))
    text = f"{PROVIDERS}{java}\n{name}=pa{placeholder.replace('FOLDER', str(tmp_path))}ss\n"
    with pytest.raises(BadInput, match=f"{name} (has a placeholder|is no path)") as refusal:
        command_config.read(config=file(tmp_path, text))
    assert "hush" not in str(refusal.value) and "12" not in str(refusal.value)


def test_a_placeholder_that_is_no_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"security.protocol has the placeholder \$\{env:X\} of a provider that is not"):
        command_config.read(config=file(tmp_path, f"{PROVIDERS}{JAVA.replace('SASL_SSL', '${env:X}')}"))


def test_stores_in_pkcs_12_are_opened_and_jks_is_refused_with_the_command(tmp_path: Path, authority: Authority) -> None:
    own = authority.folder / "own.p12"
    lines = [
        f"bootstrap.servers={SERVER}",
        "security.protocol=SSL",
        f"ssl.truststore.location={own}",
        f"ssl.truststore.password={STORE_PASSWORD}",
        f"ssl.keystore.location={own}",
        f"ssl.keystore.password={STORE_PASSWORD}",
    ]
    access = command_config.read(config=file(tmp_path, "\n".join(lines)))
    assert "BEGIN CERTIFICATE" in access.security["ssl.ca.pem"]
    assert access.security["ssl.keystore.location"] == str(own)
    assert tls.context(access.security) is not None
    assert Connection({}, access.security).java_properties()["ssl.keystore.type"] == "PKCS12"
    with pytest.raises(BadInput, match=r"ssl.truststore.password does not open .*\(the value is not shown\)"):
        command_config.read(config=file(tmp_path, "\n".join(lines).replace(STORE_PASSWORD, "hush-7", 1)))
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(BadInput, match=r"a JKS store.*keytool -importkeystore -srckeystore .*trust.jks -destkeystore"):
        command_config.read(config=file(tmp_path, "\n".join(lines).replace(str(own), str(store), 1)))


def test_a_key_with_a_password_is_opened(authority: Authority) -> None:
    own = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(authority.folder / "own.crt"),
        "ssl.key.location": str(authority.folder / "own.locked.key"),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert tls.context(own) is not None
    with pytest.raises(BadInput, match=r"ssl.key.password does not open the private key"):
        tls.context({**own, "ssl.key.password": "hush-7"})
    with pytest.raises(BadInput, match=r"ssl.key.password does not open the private key"):
        tls.context({name: value for name, value in own.items() if name != "ssl.key.password"})


def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, authority: Authority) -> None:
    key = tmp_path / "own.pem"
    key.write_bytes((authority.folder / "own.pem").read_bytes())
    text = f"bootstrap.servers={SERVER}\nsecurity.protocol=SSL\nssl.certificate.location={key}\nssl.key.location={key}"
    for mode, is_private in ((0o600, True), (0o440, True), (0o644, False), (0o660, False)):
        key.chmod(mode)
        if is_private:
            command_config.read(config=file(tmp_path, text))
            continue
        with pytest.raises(BadInput, match=rf"ssl.key.location is .* with mode {mode:04o}, and holds secrets"):
            command_config.read(config=file(tmp_path, text))


def test_two_files_of_key_and_chain_become_one_for_java(authority: Authority) -> None:
    own = {
        name: str(authority.folder / file)
        for name, file in (("ssl.certificate.location", "own.crt"), ("ssl.key.location", "own.key"))
    }
    options = Connection({1: Address("a", 1)}, {"security.protocol": "SSL", **own}).java_properties()
    assert options["ssl.keystore.type"] == "PEM" and "BEGIN PRIVATE KEY" in options["ssl.keystore.key"]
    assert "BEGIN CERTIFICATE" in options["ssl.keystore.certificate.chain"]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    access = command_config.read(config=file(tmp_path, JAVA))
    assert "hush" not in repr(access) + str(access) + json.dumps([*access.left_out])


def test_the_secrets_of_all_named_clusters_are_known_to_the_redaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path))
    assert [*command_config.known_secrets()] == []
    file(tmp_path, JAVA, name="staging.properties")
    file(tmp_path, "ssl.keystore.password=hush-8\nacks=all", name="other.properties")
    file(tmp_path, "x=\\u12", name="broken.properties")
    (tmp_path / "mounted").mkdir()
    file(tmp_path / "mounted", "hush-9\n", name="password")
    found = {*command_config.known_secrets()}
    assert {"hush-7", "hush-8", "hush-9"} <= found and "all" not in found
    text = "a hush-7 b hush-8 c hush-9"
    assert "hush" not in redact(text, redaction.known_secrets(), by_pattern=False)[0]


def test_a_locked_key_is_unlocked_for_java(authority: Authority) -> None:
    own = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(authority.folder / "own.crt"),
        "ssl.key.location": str(authority.folder / "own.locked.key"),
        "ssl.key.password": KEY_PASSWORD,
    }
    options = Connection({1: Address("a", 1)}, own).java_properties()
    assert "BEGIN PRIVATE KEY" in options["ssl.keystore.key"] and "ssl.key.password" not in options
    with pytest.raises(BadInput, match=r"ssl.key.password does not open the private key"):
        Connection({1: Address("a", 1)}, {**own, "ssl.key.password": "hush-7"}).java_properties()
