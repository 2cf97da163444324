"""A broker that refuses what a test says: librdkafka's mock cluster, through its own interface in C (`rdkafka_mock.h`).

confluent_kafka runs such a cluster, too (see `support.mock_broker`), but cannot make it refuse requests. Both use the
same library file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
"""API keys of requests of Kafka's protocol."""
ALWAYS = 10_000
"""More refusals than a test has requests."""


def _library() -> ctypes.CDLL:
    (file,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*")
    library = ctypes.CDLL(str(file))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class RefusingBroker:
    """A mock cluster of one broker. Other processes reach it by `connection`."""

    def __init__(self, library: ctypes.CDLL, cluster: ctypes.c_void_p) -> None:
        self._library, self._cluster = library, cluster
        address: bytes = library.rd_kafka_mock_cluster_bootstraps(cluster)
        self.connection = {"bootstrap.servers": address.decode()}

    def refuse(self, api: int, code: int, times: int = ALWAYS) -> None:
        """Makes the broker answer the next `times` requests of the kind `api` with the error `code`."""
        codes = (ctypes.c_int * times)(*[code] * times)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(api), ctypes.c_size_t(times), codes
        )


@contextmanager
def refusing_broker() -> Iterator[RefusingBroker]:
    """Yields a broker that refuses nothing yet."""
    library, text = _library(), ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(conf, b"log_level", b"0", text, ctypes.c_size_t(512))
    handle = ctypes.c_void_p(library.rd_kafka_new(0, conf, text, ctypes.c_size_t(512)))
    assert handle, text.value
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(handle, 1))
    try:
        yield RefusingBroker(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(handle)
