"""Secrets in settings that a user typed or pasted into a form. Airflow stores the fields of a form, so a text with a
secret must be refused before Airflow gets it.

The search refuses too much rather than too little. It also looks at comments, and at lines that a later line with the
same name replaces: no producer sees them, but Airflow would store them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import javaproperties

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names
from delivery_verifier.planning.own_settings.properties import CONNECTION_NAMES, broken_escape, is_withheld
from delivery_verifier.planning.own_settings.translation import printable_name

HARMLESS = CONNECTION_NAMES | frozenset(
    """
    security.protocol sasl.mechanism sasl.mechanisms sasl.kerberos.service.name sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.class ssl.endpoint.identification.algorithm ssl.protocol
    ssl.enabled.protocols ssl.keystore.type ssl.keystore.location ssl.truststore.type ssl.truststore.location
    ssl.keymanager.algorithm ssl.trustmanager.algorithm sasl.kerberos.kinit.cmd sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name ssl.ca.location ssl.certificate.location ssl.key.location
    enable.ssl.certificate.verification schema.registry.url basic.auth.credentials.source
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    """.split()
)
"""Properties of connection and security whose values are no secrets: addresses, paths, names of classes and protocols.
No run uses them, but a user need not remove them from a pasted file."""
_HARMLESS_VALUE = re.compile(r"(?:class )?[\w.:/\\\[\]*${}-]*(?:\s*,\s*[\w.:/\\\[\]*${}-]*)*", re.ASCII)
"""Matches a value that a property in HARMLESS can have. Does not match a value into which the next line slipped."""
_LOGGED = ("null", "[hidden]", "[]")
"""What the Java client logs in place of a password, or where there is no value."""
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?|true|false|null|\[\]")
_SECRET_NAME = re.compile("pass|pwd|secret|token|credential|jaas|(?:api|private)[._-]?key", re.IGNORECASE)
_SECRET_FIELD = re.compile(
    r"(?:pass|pwd|secret|token|credential|jaas)[\w.-]*[\"']?\s*[=:]\s*\S|-----BEGIN|://[^\s/@:]*:[^\s/@]+@",
    re.IGNORECASE,
)
"""Matches a secret within a text: a field such as `password=x`, a key in PEM form, or the password of a URL."""
_SECOND_NAME = re.compile(r"\s(?:[\w.-]+\.)?(?:sasl|ssl|security|basic\.auth|bearer\.auth|schema\.registry)\.\w")
"""Matches a property of connection or security within a value: a line break is missing before it."""
_PREFIX = re.compile(
    r"spring\.kafka\.(?:(?:producer|consumer|admin|streams)\.)?(?:properties[.\[]\[?)?"
    r"|^java\.|^(?:[\w>-]+\.)??(?:producer|consumer|admin)\.(?:override\.)?|^[\w>-]+\.(?=(?:sasl|ssl|security)\.)"
)
"""Matches what stands before Kafka's own name in a property of Spring Boot, Kafka Connect or MirrorMaker, and
in an override for the Java client."""
_COMMENTED_OUT = re.compile(r"(?P<name>[\w.\[\]-]+)(?:\s*[=:]\s*\S|[ \t]+\S+$)", re.ASCII)
"""Matches a comment that was a property before: a name with a separator and a value, or a name and one word."""


def require_none(text: str, field: str) -> None:
    """Raises BadInput if `text`, which has .properties syntax, has a value that may be a secret.

    The message names the properties, and the lines of the comments, but shows no value. `field` is the field of the run
    that the text comes from; messages show it. Also raises BadInput for a broken Unicode escape.
    """
    try:
        elements = _elements(text)
    except ValueError:
        raise broken_escape(field) from None
    places, line = dict[str, list[str]](), 1
    for element in elements:
        if isinstance(element, javaproperties.KeyValue) and _is_secret(element.key.strip(), element.value.strip()):
            kind = "has values for" if _is_named(element.key.strip()) else "may have a password in the value of"
            places.setdefault(kind, []).append(printable_name(element.key.strip()))
        elif isinstance(element, javaproperties.Comment) and _hides_secret(element.source.lstrip("#! \t\f").rstrip()):
            places.setdefault("may have a password in the comment of line", []).append(str(line))
        line += element.source.count("\n")
    if places:
        reasons = ", and ".join(f"{kind} {', '.join(dict.fromkeys(each))}" for kind, each in places.items())
        raise BadInput(f"{field} {reasons}; no run uses them, and Airflow would store them: leave them out")


def has_quotable(text: str) -> bool:
    """Returns whether `text`, which has .properties syntax, may have a secret that an error message would quote.

    This is a secret in the value of a property that is not withheld, e.g. because a line break is missing.
    """
    try:
        elements = [element for element in _elements(text) if isinstance(element, javaproperties.KeyValue)]
    except ValueError:
        return True
    properties = [(element.key.strip(), element.value.strip()) for element in elements]
    return any(_is_quotable(name, value) for name, value in properties)


def require_none_quotable(settings: Mapping[str, str], field: str) -> None:
    """Raises BadInput if the value of one of `settings` may hold a secret that an error message would quote (see
    `has_quotable`). The message shows the name alone. `field` is the field of the run that the settings come from."""
    for name, value in settings.items():
        if _is_quotable(name, value):
            raise BadInput(
                f"{field}: the value of {printable_name(name)} may hold a password (not shown); write each property on "
                "a line of its own, and leave passwords out: no run uses them"
            )


def _is_quotable(name: str, value: str) -> bool:
    if _is_named(name):
        return False
    return _is_secret(name, value) or _SECOND_NAME.search(value) is not None


def _elements(text: str) -> list[javaproperties.PropertiesElement]:
    """Returns the properties, comments and empty lines of `text`. Raises ValueError for a broken Unicode escape."""
    return list(javaproperties.parse(text.replace("\r\n", "\n").replace("\r", "\n")))


def _kafkas(name: str) -> str:
    """Returns Kafka's own name of a property, which may have Spring Boot's name."""
    return _PREFIX.sub("", name).removesuffix("]").replace("bootstrap-servers", "bootstrap.servers")


def _is_secret(name: str, value: str) -> bool:
    """Returns whether the property may hold a secret. An empty value is none."""
    known = _kafkas(name)
    if not value or (value in _LOGGED and is_withheld(known)) or _is_plain(known, value):
        return False
    if known in HARMLESS:
        return not _HARMLESS_VALUE.fullmatch(value) or _SECRET_FIELD.search(value) is not None
    return _is_named(name) or _SECRET_FIELD.search(value) is not None


def _is_plain(known: str, value: str) -> bool:
    """Returns whether the property is one of the Java client's own that holds no secret, with a value that is none."""
    if _SECRET_NAME.search(known) or not _PLAIN.fullmatch(value):
        return False
    return known in known_names.names("producer") or known in known_names.names("consumer")


def _is_named(name: str) -> bool:
    """Returns whether the name shows that the value may be a secret. No message ever shows the value of such a
    property."""
    return is_withheld(_kafkas(name)) or _SECRET_NAME.search(name) is not None


def _hides_secret(comment: str) -> bool:
    """Returns whether the comment may hold a secret. `comment` is its text without the comment sign."""
    if _SECRET_FIELD.search(comment):
        return True
    was = _COMMENTED_OUT.match(comment)
    if was is None:
        return False
    return _kafkas(was["name"]) not in HARMLESS and _is_named(was["name"])
