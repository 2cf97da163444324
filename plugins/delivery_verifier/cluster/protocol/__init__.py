"""Kafka's protocol, spoken raw: what confluent-kafka's clients do not tell."""
