"""Requests of Kafka's protocol over plain sockets, for questions that confluent-kafka's clients cannot ask."""
