"""Kafka's protocol over plain sockets, for what librdkafka does not offer or must not hang on."""
