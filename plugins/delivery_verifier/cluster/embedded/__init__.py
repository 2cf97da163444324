"""The embedded backend: runs real Apache Kafka as processes on this host. Their parent process is the cluster agent."""
