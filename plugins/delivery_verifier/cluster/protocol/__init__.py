"""Raw requests of Kafka's protocol, for what confluent-kafka's clients cannot ask."""
