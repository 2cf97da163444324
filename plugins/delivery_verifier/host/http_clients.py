"""Clients of the HTTP servers that a run talks to: the fault gateway, the container engine and Airflow's API."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

WITHOUT_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The TLS settings of clients of plain HTTP. A client with these settings trusts no certificate, so it refuses every
HTTPS server. Otherwise httpx reads all certificate authorities for each client, which takes longer than a request."""


def client_of(url: str, **options: Any) -> httpx.Client:
    """Returns an HTTP client whose paths begin at `url`. Proxies of the environment are ignored.

    `options`: further arguments of httpx.Client, e.g. `timeout` in seconds.
    """
    verify = True if url.lower().startswith("https:") else WITHOUT_AUTHORITIES
    return httpx.Client(base_url=url, trust_env=False, verify=verify, **options)
