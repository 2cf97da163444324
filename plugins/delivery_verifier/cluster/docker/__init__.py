"""The docker backend: the brokers of a docker-compose.yml are the cluster under test. Only one service, the fault
gateway, may change the brokers' containers."""
