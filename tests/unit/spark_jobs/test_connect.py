"""Tests of a session on a Spark Connect server: by which errors a client notices that the server has ended, and how the
session is closed."""

from types import SimpleNamespace

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException

from spark_jobs.session import connect
from spark_jobs.session.classic import SparkGone
from spark_jobs.session.connect import _naming_server_end, connect_session


def test_a_query_after_another_thread_has_noticed_the_end_of_the_server_says_that_the_server_has_ended() -> None:
    with pytest.raises(SparkGone, match="the Spark Connect server has ended"), _naming_server_end():
        raise SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={})


def test_an_error_of_a_query_stays_what_it_is() -> None:
    with pytest.raises(SparkConnectException, match="overflow"), _naming_server_end():
        raise SparkConnectException("overflow")


def test_a_session_that_cannot_be_closed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OSError("no answer")

    session = SimpleNamespace(
        stop=fail,
        catalog=SimpleNamespace(clearCache=lambda: None),
        conf=SimpleNamespace(set=lambda name, value: None),
    )
    builder = SimpleNamespace(remote=lambda url: SimpleNamespace(create=lambda: session))
    monkeypatch.setattr(connect, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(connect, "client_of", lambda spark: SimpleNamespace(set_retry_policies=lambda policies: None))
    with connect_session("sc://nowhere:1") as spark:
        assert spark is session
    assert "warning: the end of the Spark session failed: OSError: no answer" in caplog.text
