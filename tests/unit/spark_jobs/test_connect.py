"""Tests of the errors by which a client notices that its Spark Connect server has ended."""

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException

from spark_jobs.connect import _naming_server_end
from spark_jobs.session import SparkGone


def test_a_query_after_another_thread_has_noticed_the_end_of_the_server_says_that_the_server_has_ended() -> None:
    with pytest.raises(SparkGone, match="the Spark Connect server has ended"), _naming_server_end():
        raise SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={})


def test_an_error_of_a_query_stays_what_it_is() -> None:
    with pytest.raises(SparkConnectException, match="overflow"), _naming_server_end():
        raise SparkConnectException("overflow")
