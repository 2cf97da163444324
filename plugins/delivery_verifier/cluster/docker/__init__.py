"""The docker backend: the brokers of a docker-compose.yml are the cluster under test. The fault door is the only
service that may change their containers."""
