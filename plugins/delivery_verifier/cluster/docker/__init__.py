"""The docker backend: its cluster under test are the brokers of a docker-compose.yml. The fault door is the only
service that may change their containers."""
