"""Asks a service at a URL for its health. Exits with 0 if the service is healthy. If a component of Airflow is given,
the answer must say that this component is healthy.

The health checks of docker-compose.yml call this script: `python docker/healthy.py URL [COMPONENT]`.
"""

from __future__ import annotations

import json
import sys
import urllib.request

WITHIN_S = 5


def main() -> int:
    """Returns 0 if the service is healthy, else 1. Raises URLError if the service does not answer."""
    url, *components = sys.argv[1:]
    with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:  # noqa: S310 (docker-compose.yml names the URL)
        body = answer.read()
    health = json.loads(body) if components else {}
    return int(any(health.get(name, {}).get("status") != "healthy" for name in components))


if __name__ == "__main__":
    sys.exit(main())
