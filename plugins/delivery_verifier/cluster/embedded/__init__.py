"""The embedded backend: real Apache Kafka as processes on this host, and the keeper, their parent process."""
