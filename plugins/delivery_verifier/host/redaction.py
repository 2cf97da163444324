"""Redaction: replaces the secrets in a text. A secret is found by its value, if the value is known, or by a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable

REDACTED = "[redacted]"
"""The text that replaces a secret."""
_WORDS = r"password|passwd|passphrase|secret|api[._-]?key|private[._-]?key|fernet[._-]?key|credentials?|jaas\.config"
SECRET_VARIABLE = re.compile(f"{_WORDS}|token", re.IGNORECASE)
"""Matches the name of a variable whose value may be secret."""
_NAMED = re.compile(
    rf"((?:{_WORDS}|(?<!run_)token|user\.info|keystore\.key)[\w.-]*\\?[\"']?\s*[=:]\s*|--(?:{_WORDS})\s+)"
    r"""(\\"[^"\n]*\\"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?!null\b|true\b|false\b|\[redacted\])[^\s,;&})\]"']+)""",
    re.IGNORECASE,
)
"""Matches the name of a secret together with its value, in properties, JSON, JSON in a log, or a command line.

Does not match `run_token`, which is no secret.
"""


def _quotes(value: str) -> str:
    return value[: 2 if value.startswith('\\"') else 1] if value[0] in "\"'\\" else ""


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_NAMED, lambda match: match[1] + _quotes(match[2]) + REDACTED + _quotes(match[2])),
    (re.compile(r"(\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}"), lambda match: match[1] + REDACTED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), lambda match: REDACTED),
    (re.compile(r"(://[^\s/:@]*:)[^\s/]+(?=@)"), lambda match: match[1] + REDACTED),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        lambda match: REDACTED,
    ),
)


def redact(text: str, secrets: list[str], *, by_pattern: bool = True) -> tuple[str, int]:
    """Replaces each of `secrets` in `text` by `[redacted]`. Returns the new text and the number of replacements.

    With `by_pattern`, also replaces values that look like secrets, for example the value of `password=...`, or a
    private key.
    """
    count = 0
    for secret in secrets:
        count += text.count(secret)
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _PATTERNS if by_pattern else ():
        text, replaced = pattern.subn(replacement, text)
        count += replaced
    return text, count
