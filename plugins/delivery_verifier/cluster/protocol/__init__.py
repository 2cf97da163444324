"""Raw requests of Kafka's protocol, for questions that confluent-kafka's clients cannot ask."""
