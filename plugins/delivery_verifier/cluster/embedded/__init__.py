"""The embedded backend: real Apache Kafka as processes of this host."""
