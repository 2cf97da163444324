"""Settings of the user's own: read from files in Kafka's syntax, translated by name, never guessed."""
