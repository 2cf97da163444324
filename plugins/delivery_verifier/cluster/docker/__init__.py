"""The docker backend: the brokers of a docker-compose.yml as the cluster under test, and the fault door, the only
service that may do something to their containers."""
