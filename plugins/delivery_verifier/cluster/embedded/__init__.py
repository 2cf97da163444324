"""The embedded backend: real Apache Kafka as processes on this host, and the keeper that owns them."""
